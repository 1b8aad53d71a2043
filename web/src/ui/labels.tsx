import type { Index } from "../data/site.ts";
import { visible } from "../data/vocabulary.ts";

/** A latent's label as plain text: the written one first. */
export function labelOf(index: Index | null, latent: number): string {
  const label = index?.labels[latent];
  return visible(label?.written || label?.text || "no label");
}

export function LabelText({ index, latent }: { index: Index; latent: number }) {
  const label = labelOf(index, latent);
  return (
    <bdi class="label" title={label}>
      {label}
    </bdi>
  );
}
