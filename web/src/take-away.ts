// Text that leaves the viewer.
import type { DictionaryEntry } from "./schema.ts";

/** One quoted cell; a leading = + - @ would be run as a formula by a spreadsheet, so it gets a quote before it. */
export function cell(text: string): string {
  const safe = /^\s*[=+\-@]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

export function snippet(entry: DictionaryEntry, latent: number): string {
  const name = entry.source_autoencoder === null ? "" : `, name=${python(entry.source_autoencoder)}`;
  return [
    "import quadric",
    "",
    `autoencoder = quadric.load(${python(entry.source)}${name})`,
    `spectrum = quadric.geometry.spectrum(autoencoder, ${latent})`,
    "print(spectrum.eigenvalues[:8])",
  ].join("\n");
}

/** A Python string literal; JSON's are valid ones. */
function python(text: string): string {
  return JSON.stringify(text);
}
