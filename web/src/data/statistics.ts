// The statistics of a latent: names, meaning, and how to draw them.
import type { Unit } from "./site.ts";
import { SHAPES } from "./schema.ts";
import type { Column } from "./schema.ts";

export interface Statistic {
  key: Column;
  name: string;
  short: string;
  explain: (unit: Unit) => string;
  log: boolean;
  format: (value: number) => string;
}

const percent = (value: number) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
// Rounding may take a density that is 0 just below it.
const share = (value: number) => Math.max(0, value).toFixed(3);

const CURVATURE: Statistic = {
  key: "measured_curvature",
  name: "Curvature",
  short: "curvature",
  explain: (unit) =>
    `Share of z's variance over all scored ${unit}s that no linear function explains: 0 % is a direction, 100 % has nothing linear about it.`,
  log: false,
  format: percent,
};

/** Of every latent, in lists and filters. */
export const STATISTICS: Statistic[] = [
  CURVATURE,
  {
    key: "density",
    name: "Density",
    short: "density",
    explain: (unit) =>
      `Hoyer density of z over all scored ${unit}s: near 0 when few ${unit}s carry all activation, 1 when all carry the same.`,
    log: false,
    format: share,
  },
  {
    key: "effective_rank",
    name: "Effective rank",
    short: "eff. rank",
    explain: () => "(Σ|λ|)² / Σλ² of the quadratic part: how many eigenvalues carry weight. 1 is a single axis.",
    log: false,
    format: (value) => value.toFixed(2),
  },
  {
    key: "support",
    name: "Support",
    short: "support",
    explain: () => "Atoms, pairs of directions, that feed into the latent's form.",
    log: false,
    format: (value) => value.toFixed(0),
  },
  {
    key: "importance",
    name: "Importance",
    short: "importance",
    explain: () => "Squared norm of the latent's form about the mean, scaled so that the average of this dictionary reads 1×.",
    log: true,
    format: (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)}×`,
  },
  {
    key: "captured",
    name: "Captured",
    short: "captured",
    explain: () => "Share of Σ|λ| on the three axes shown: how much of the quadratic part three dimensions can show.",
    log: false,
    format: percent,
  },
];

export const MORE_STATISTICS: Statistic[] = [
  {
    key: "firing_share",
    name: "Firing share",
    short: "firing",
    explain: (unit) => `Share of ${unit}s on which the latent fires.`,
    log: false,
    format: percent,
  },
  {
    key: "positive_share",
    name: "Positive share",
    short: "positive",
    explain: () => "How much of Σ(z − rest)² lies above rest, the median of z.",
    log: false,
    format: percent,
  },
  {
    key: "mean_square",
    name: "Mean square",
    short: "mean square",
    explain: (unit) => `Mean of (z − rest)² over all scored ${unit}s.`,
    log: true,
    format: (value) => value.toExponential(1),
  },
];

const WORTH: Statistic = {
  key: "worth",
  name: "Worth a look",
  short: "worth",
  explain: () => "Curved, sparse and distinct latents first; the rule is stated beside the list.",
  log: false,
  format: (value) => value.toPrecision(2),
};

const CURVATURE_OF_WEIGHTS: Statistic = {
  key: "curvature",
  name: "Curvature from weights",
  short: "curvature (weights)",
  explain: (unit) => `The same share from the weights alone, as if ${unit}s were Gaussian with their measured spread.`,
  log: false,
  format: percent,
};

export const SHAPE: Statistic = {
  key: "shape",
  name: "Shape",
  short: "shape",
  explain: () => "Which quadric the latent's level sets are, from its quadratic and its linear part; a part below 5 % of its variation does not count.",
  log: false,
  format: (value) => SHAPES[value] ?? "unknown",
};

export const ALL_STATISTICS = [...STATISTICS, SHAPE, WORTH, CURVATURE_OF_WEIGHTS, ...MORE_STATISTICS];

export function statistic(key: string): Statistic {
  return ALL_STATISTICS.find((each) => each.key === key) ?? STATISTICS[0];
}

/** What there is to say of a direction: it has no eigenvalues, and its curvature is its gate's. */
const OF_DIRECTIONS: Column[] = ["density", "firing_share", "importance", "mean_square"];

const NORM: Statistic = {
  ...statistic("importance"),
  explain: () => "Squared norm of the latent's direction, its row of the decoder, scaled so that the average of this dictionary reads 1×.",
};

/** The statistics that lists and filters of a dictionary show. */
export function statisticsOf(isLinear: boolean): Statistic[] {
  return isLinear ? OF_DIRECTIONS.map((key) => (key === "importance" ? NORM : statistic(key))) : STATISTICS;
}

/** The statistics that the map of a dictionary can show. */
export function choicesOf(isLinear: boolean): Statistic[] {
  return isLinear ? [...statisticsOf(true), SHAPE, { ...WORTH, explain: () => "Sparse, strong and distinct latents first; the rule is stated beside the list." }] : ALL_STATISTICS;
}

/** Scales values to [0, 1], logarithmically where the statistic says so; zeros are at the low end. */
export function unitScale(values: Float32Array, log: boolean): (value: number) => number {
  return scaleBetween(drawnRange(values, log), log);
}

/** The same between the 2nd and 98th percentile: a few extreme latents must not use up the colours. */
export function robustScale(values: Float32Array, log: boolean): (value: number) => number {
  const scale = scaleBetween(robustRange(drawn(values, log)), log);
  return (value) => Math.min(1, Math.max(0, scale(value)));
}

function scaleBetween([low, high]: [number, number], log: boolean): (value: number) => number {
  if (!(high > low)) return () => 0.5;
  if (!log) return (value) => (value - low) / (high - low);
  return (value) => (value <= 0 ? 0 : Math.log(value / low) / Math.log(high / low));
}

/** Positive values only where the scale is logarithmic. */
function drawn(values: Float32Array, log: boolean): Float32Array {
  return log ? values.filter((value) => value > 0) : values;
}

export function drawnRange(values: Float32Array, log: boolean): [number, number] {
  return range(drawn(values, log));
}

/** Ends of the colour scale of a statistic. */
export function colourRange(values: Float32Array, log: boolean): [number, number] {
  return robustRange(drawn(values, log));
}

export function range(values: Float32Array): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 0];
}

/** The 2nd and 98th percentile; the whole range where they coincide. */
export function robustRange(values: ArrayLike<number>): [number, number] {
  const sorted = Float32Array.from(values).sort();
  if (!sorted.length) return [0, 0];
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))];
  return at(0.98) > at(0.02) ? [at(0.02), at(0.98)] : [sorted[0], sorted[sorted.length - 1]];
}
