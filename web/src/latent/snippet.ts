// Python that loads the latent shown.
import type { DictionaryEntry } from "../data/schema.ts";

export function snippet(entry: DictionaryEntry, latent: number): string {
  if (entry.source === null) return unsaved(entry, latent);
  const name = entry.source_autoencoder === null ? "" : `, name=${python(entry.source_autoencoder)}`;
  return ["import quadric", "", `autoencoder = quadric.load(${python(entry.source)}${name})`, ...use(entry, latent)].join("\n");
}

function unsaved(entry: DictionaryEntry, latent: number): string {
  return [
    "import quadric",
    "",
    "# This site was made from an autoencoder in memory.",
    '# Keep it with autoencoder.save_pretrained("my-autoencoder"), then load it:',
    'autoencoder = quadric.load("my-autoencoder")',
    ...use(entry, latent),
  ].join("\n");
}

function use(entry: DictionaryEntry, latent: number): string[] {
  const unknown = "# These weights do not hold the mean of the data; give it with centre=mean to read the shape about it.";
  return [
    ...(entry.lens === "affine" ? [] : [unknown]),
    `shape = quadric.geometry.read(autoencoder, ${latent})`,
    entry.is_linear ? `print(shape, autoencoder.decoder[${latent}])` : "print(shape, shape.eigenvalues[:8])",
  ];
}

/** A Python string literal; JSON's are valid ones. */
function python(text: string): string {
  return JSON.stringify(text);
}
