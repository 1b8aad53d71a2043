// Python that loads the latent shown.
import type { DictionaryEntry } from "../data/schema.ts";

export function snippet(entry: DictionaryEntry, latent: number): string {
  const name = entry.source_autoencoder === null ? "" : `, autoencoder=${python(entry.source_autoencoder)}`;
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
