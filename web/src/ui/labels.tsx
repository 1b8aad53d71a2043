import type { DictionaryEntry, LatentLabel } from "../data/schema.ts";
import type { Index } from "../data/site.ts";
import { visible } from "../data/vocabulary.ts";

/** A latent's label as plain text: the written one first. */
export function labelOf(index: Index | null, latent: number): string {
  const label = index?.labels[latent];
  return visible(label?.written || label?.text || "no label");
}

/** How well the label shown was found to hold, or that nobody has looked; the tooltip says how both came about. */
export function LabelQuality({ entry, label }: { entry: DictionaryEntry; label: LatentLabel | undefined }) {
  const { offline, written, scored } = entry.labels;
  const made = label?.written ? `Written by ${written}.` : `Label: ${offline}.`;
  const score = label?.written ? label.written_score : label?.score;
  if (!score)
    return (
      <span class="explained" title={made}>
        label unevaluated
      </span>
    );
  const judge = label?.written ? "judged by its language model" : "judged by its words as a rule";
  const count = `${score.n_contexts} held-out contexts where it fires and as many others`;
  return (
    <span class="explained" title={`${made} Score: ${scored ?? ""}. On ${count}, ${judge}.`}>
      label score: detection {score.detection.toFixed(2)}
      {score.fuzzing !== null && `, fuzzing ${score.fuzzing.toFixed(2)}`} (chance 0.50)
    </span>
  );
}

/** Marks a dictionary whose latents are directions. */
export function LinearChip() {
  return (
    <span class="chip linear" title="Latents of this dictionary are directions, as in TopK: half-spaces without curvature.">
      linear
    </span>
  );
}

export function LabelText({ index, latent }: { index: Index; latent: number }) {
  const label = labelOf(index, latent);
  return (
    <bdi class="label" title={label}>
      {label}
    </bdi>
  );
}
