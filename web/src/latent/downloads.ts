// Files a reader can download: the picture as PNG, the points as CSV.
import type { Latent, SiteText } from "../data/site.ts";
import type { ShownAxis } from "../scene/geometry.ts";
import type { Scatter } from "../scene/scatter.ts";
import { aboveRest } from "../scene/activation.ts";
import { columnName } from "../ui/format.ts";

export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The scatter with its axes' names and a caption that says what it is. */
export function picture(
  scatter: Scatter,
  overlay: HTMLCanvasElement,
  background: string,
  ink: string,
  caption: string[],
) {
  scatter.draw();
  const { width, height } = scatter.canvas;
  const scale = width / Math.max(1, scatter.canvas.clientWidth);
  const paper = document.createElement("canvas");
  paper.width = width;
  paper.height = height + Math.round((16 + 20 * caption.length) * scale);
  const pen = paper.getContext("2d")!;
  pen.fillStyle = background;
  pen.fillRect(0, 0, paper.width, paper.height);
  pen.drawImage(scatter.canvas, 0, 0);
  pen.drawImage(overlay, 0, 0);
  pen.scale(scale, scale);
  pen.fillStyle = ink;
  caption.forEach((line, i) => {
    pen.font = `${i ? 400 : 600} ${i ? 12 : 14}px Inter, system-ui, sans-serif`;
    pen.fillText(line, 14, height / scale + 16 + 20 * i, width / scale - 28);
  });
  return new Promise<Blob>((done, fail) =>
    paper.toBlob((blob) => (blob ? done(blob) : fail(new Error("the browser made no picture"))), "image/png"),
  );
}

/** The points as CSV: token or row, activation, place in the text, the coordinates shown, and the linear control. */
export function pointsAsCsv(latent: Latent, text: SiteText, shown: ShownAxis[], origin: string): string {
  const names = shown.map((axis, i) => `${"xyz"[i]} (${columnName(axis, origin)})`);
  const last = ["z minus rest", `best linear direction, from ${origin}`];
  const [word, where] = text.unit === "row" ? ["text", "row"] : ["token", "place"];
  const rows = [["point", word, "z", where, ...names, ...last].map(cell).join(",")];
  for (let i = 0; i < latent.values.length; i++) {
    const coordinates = shown.map(({ values }) => values[i]);
    const numbers = [latent.values[i], latent.places[i], ...coordinates, aboveRest(latent, i), latent.linear[i]];
    rows.push([String(i), cell(text.vocabulary.text(latent.tokens[i])), ...numbers.map(plain)].join(","));
  }
  return `${rows.join("\r\n")}\r\n`;
}

function plain(number: number): string {
  return Number.isInteger(number) ? String(number) : number.toPrecision(6);
}

/** One quoted cell; spreadsheets would run a leading = + - @ as a formula, so it is preceded by a quote. */
export function cell(text: string): string {
  const safe = /^\s*[=+\-@]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}
