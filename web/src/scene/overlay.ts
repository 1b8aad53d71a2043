// What is written over the 3D picture: names of axes, markers, pinned tokens.
import { css, PALETTES } from "./colours.ts";
import type { Theme } from "./colours.ts";
import type { Rgb, Scatter } from "./scatter.ts";

/** A place of the frame with a meaning of its own. */
export interface Marker {
  kind: "origin" | "centre";
  at: Rgb;
}

const HALF = 6;

/** Corners of a marker's strokes, in pixels from its middle: a diamond for the origin, a cross for a centre. */
export const STROKES: Record<Marker["kind"], [number, number][][]> = {
  origin: [
    [
      [0, -HALF],
      [HALF, 0],
      [0, HALF],
      [-HALF, 0],
      [0, -HALF],
    ],
  ],
  centre: [
    [
      [-HALF, -HALF],
      [HALF, HALF],
    ],
    [
      [-HALF, HALF],
      [HALF, -HALF],
    ],
  ],
};

export function drawMarkers(pen: CanvasRenderingContext2D, scatter: Scatter, markers: Marker[], theme: Theme): void {
  const palette = PALETTES[theme];
  for (const { kind, at } of markers) {
    const { x, y } = scatter.place(at);
    for (const [width, colour] of [
      [5, halo(theme)],
      [2, css(kind === "centre" ? palette.surface : palette.ink)],
    ] as const) {
      pen.beginPath();
      for (const stroke of STROKES[kind])
        stroke.forEach(([right, down], i) => (i ? pen.lineTo(x + right, y + down) : pen.moveTo(x + right, y + down)));
      pen.lineWidth = width;
      pen.lineJoin = "round";
      pen.lineCap = "round";
      pen.strokeStyle = colour;
      pen.stroke();
    }
  }
}

export function drawAxisNames(pen: CanvasRenderingContext2D, scatter: Scatter, theme: Theme): void {
  pen.font = "500 12px Inter, system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const { axis, x, y, right, down } of scatter.axisEnds()) {
    // Beyond the end of the line, so that the line does not cross the name.
    const half = pen.measureText(axis.label).width / 2 + 7;
    label(pen, axis.label, x + right * half, y + down * 13, css(PALETTES[theme].axis), theme);
  }
}

export function drawPins(
  pen: CanvasRenderingContext2D,
  scatter: Scatter,
  pins: number[],
  text: (pin: number) => string,
  theme: Theme,
): void {
  pen.font = "600 12px Inter, system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const pin of pins) {
    const at = scatter.placeOf(pin);
    label(pen, text(pin), at.x + 12, at.y - 12, css(PALETTES[theme].ink), theme, true);
  }
}

/** What a star shows: where, which word, and whether the word is written beside it. */
export interface StarMark {
  at: Rgb;
  word: string;
  named: boolean;
}

export function drawStars(pen: CanvasRenderingContext2D, scatter: Scatter, stars: StarMark[], theme: Theme): void {
  const palette = PALETTES[theme];
  for (const { at } of stars) {
    const { x, y } = scatter.place(at);
    pen.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const [length, angle] = [corner % 2 ? 3.2 : 8, (corner * Math.PI) / 5 - Math.PI / 2];
      pen.lineTo(x + length * Math.cos(angle), y + length * Math.sin(angle));
    }
    pen.closePath();
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    pen.strokeStyle = halo(theme);
    pen.stroke();
    pen.fillStyle = css(palette.surface);
    pen.fill();
  }
  pen.font = "600 12px Inter, system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const { at, word, named } of stars) {
    if (!named) continue;
    const { x, y } = scatter.place(at);
    label(pen, word, x + 11, y - 10, css(palette.surface), theme, true);
  }
}

function halo(theme: Theme): string {
  return theme === "dark" ? "rgb(18 18 23 / 85%)" : "rgb(253 252 250 / 85%)";
}

function label(
  pen: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  colour: string,
  theme: Theme,
  start = false,
): void {
  const width = pen.measureText(text).width;
  const [right, bottom] = [pen.canvas.clientWidth - width - 8, pen.canvas.clientHeight - 10];
  const left = Math.min(Math.max(8, start ? x : x - width / 2), Math.max(8, right));
  const top = Math.min(Math.max(10, y), bottom);
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.strokeStyle = halo(theme);
  pen.strokeText(text, left, top);
  pen.fillStyle = colour;
  pen.fillText(text, left, top);
}
