// How good the dictionary is, as far as it was measured.
import type { Index, Unit } from "../data/site.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { percent } from "../ui/format.ts";
import { countsOf } from "./selection.ts";

interface Props {
  entry: DictionaryEntry;
  unit: Unit;
}

export function QualityPanel({ entry, unit, index }: Props & { index: Index }) {
  return (
    <section class="panel quality" aria-label="Quality">
      <Errors {...{ entry, unit }} />
      <Blocks {...{ entry, unit }} />
      <Latents {...{ entry, index }} />
      <Reading {...{ entry, unit }} />
    </section>
  );
}

const UNKNOWN = "not measured";

function Errors({ entry: { quality }, unit }: Props) {
  const { error, floor, n_tokens } = quality;
  const title =
    "Share of the energy of xxᵀ that is lost on held-out data. The floor is the least that any dictionary of this size can lose with a tied linear encoder.";
  return (
    <div title={title}>
      <h2>Error</h2>
      {error === null ? (
        <p class="quiet">Not measured. Evaluate the run on held-out data and export the site again.</p>
      ) : (
        <>
          <p class="figure">{error.toFixed(3)}</p>
          <ErrorBar error={error} floor={floor} />
          <p class="quiet">
            {floor === null ? "floor not measured" : `floor ${floor.toFixed(3)} at this size`}
            {n_tokens !== null && `; ${n_tokens.toLocaleString("en")} held-out ${unit}s`}
          </p>
        </>
      )}
    </div>
  );
}

function ErrorBar({ error, floor }: { error: number; floor: number | null }) {
  const width = (share: number) => 100 * Math.min(1, Math.max(0, share));
  return (
    <svg class="error-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="whole" width="100" height="6" />
      <rect width={width(error)} height="6" />
      {floor !== null && <line x1={width(floor)} x2={width(floor)} y1="0" y2="6" />}
    </svg>
  );
}

/** xxᵀ about the mean has three blocks, and only the last one has a shape. */
function Blocks({ entry: { quality }, unit }: Props) {
  const difference = `a ${unit}'s difference from the mean`;
  const blocks: [string, number | null, string, string][] = [
    ["constant", quality.error_constant, `what every ${unit} shares`, "the mean times itself"],
    ["linear", quality.error_linear, "directions from the mean", `the mean times ${difference}`],
    ["quadratic", quality.error_quadratic, "curved shapes", `${difference} times itself`],
  ];
  return (
    <div class="blocks">
      <h2>Error by block</h2>
      <dl>
        {blocks.map(([name, error, meaning, product]) => (
          <div key={name} title={`Relative error of the ${name} block of xxᵀ, ${product}: ${meaning}.`}>
            <dt>{name}</dt>
            <dd>
              {error !== null && <ErrorBar error={error} floor={null} />}
              <span class="value">{error === null ? UNKNOWN : error.toFixed(error < 0.01 ? 3 : 2)}</span>
              <small class="quiet">{meaning}</small>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** What the evaluation counted, or else what the site's own columns say. */
function Latents({ entry: { quality, n_latents }, index }: { entry: DictionaryEntry; index: Index }) {
  const counted = countsOf(index);
  const empty = quality.n_empty ?? counted.empty;
  const copies = quality.n_copies ?? counted.copies;
  const rows: [string, string, string][] = [
    ["empty", empty.toLocaleString("en"), "Latents whose form is zero."],
    ["copies", copies.toLocaleString("en"), "Latents with nearly the same form as an earlier one."],
    [
      "dense",
      percent(quality.dense_share ?? counted.dense),
      "Share of latents that are active almost everywhere: Hoyer density above 0.5.",
    ],
  ];
  return (
    <div>
      <h2>Distinct latents</h2>
      <p class="figure">
        {(quality.n_distinct ?? n_latents - empty - copies).toLocaleString("en")}{" "}
        <small class="quiet">of {n_latents.toLocaleString("en")}</small>
      </p>
      <dl class="facts">
        {rows.map(([name, value, title]) => (
          <div key={name} title={title}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

const LENSES: Record<string, (unit: Unit) => string> = {
  paper: (unit) => `${unit}s as they are, scaled to unit length`,
  affine: (unit) => `${unit}s about their mean, with a constant beside them`,
  none: (unit) => `latents are directions, half-spaces without curvature, shown about the mean ${unit} as the encoder reads it`,
};

function Reading({ entry, unit }: Props) {
  const { lens, centre_norm: norm } = entry;
  return (
    <div>
      <h2>{entry.is_linear ? "Dictionary" : "Lens"}</h2>
      <p class="figure">{entry.is_linear ? "linear" : lens}</p>
      <p class="quiet">
        {LENSES[lens] ? `${LENSES[lens](unit)}. ` : ""}
        {norm > 0
          ? entry.is_linear
            ? `Its norm is ${norm.toPrecision(2)}.`
            : `The mean ${unit} of unit length has norm ${norm.toFixed(2)}: ${percent(norm * norm)} of the energy lies along it.`
          : "No mean is known, so latents are shown about the origin."}
      </p>
    </div>
  );
}
