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
const share = (value: number) => value.toFixed(3);

export const STATISTICS: Statistic[] = [
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
    explain: () => "(Σ|λ|)² / Σλ²: how many eigenvalues carry weight. 1 is a single direction.",
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
    explain: () => "Σλ², scaled so that the average latent of this dictionary reads 1×.",
    log: true,
    format: (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)}×`,
  },
  {
    key: "captured",
    name: "Captured",
    short: "captured",
    explain: () => "Share of Σ|λ| on the three axes shown: how much of the latent three dimensions can show.",
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
    explain: () => "How much of the latent's activation is positive.",
    log: false,
    format: percent,
  },
  {
    key: "mean_square",
    name: "Mean square",
    short: "mean z²",
    explain: (unit) => `Mean of z² over all scored ${unit}s.`,
    log: true,
    format: (value) => value.toExponential(1),
  },
];

const SHAPE_STATISTIC: Statistic = {
  key: "shape",
  name: "Shape",
  short: "shape",
  explain: () => "Which quadric the latent's level sets are, from the signs of its eigenvalues.",
  log: false,
  format: (value) => SHAPES[value] ?? "unknown",
};

export const ALL_STATISTICS = [...STATISTICS, ...MORE_STATISTICS, SHAPE_STATISTIC];

export function statistic(key: string): Statistic {
  return ALL_STATISTICS.find((each) => each.key === key) ?? STATISTICS[0];
}

/** Scales values to [0, 1], logarithmically where the statistic says so; zeros are at the low end. */
export function unitScale(values: Float32Array, log: boolean): (value: number) => number {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (log && value <= 0) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(high > low)) return () => 0.5;
  if (!log) return (value) => (value - low) / (high - low);
  return (value) => (value <= 0 ? 0 : Math.log(value / low) / Math.log(high / low));
}

export function range(values: Float32Array): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 0];
}
