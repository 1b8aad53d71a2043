// Activations about their rest, and how strong "strong" is among the points shown.
import { robustRange } from "../data/statistics.ts";
import type { Latent } from "../data/site.ts";

/** z − rest of a point. */
export function aboveRest(latent: Latent, point: number): number {
  return latent.values[point] - latent.rest;
}

/** z − rest of every point. */
export function allAboveRest(latent: Latent): Float32Array {
  return latent.values.map((value) => value - latent.rest);
}

/** Largest |z − rest| of the points. */
export function largestStep(latent: Latent): number {
  return allAboveRest(latent).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

/** Ends of the scale that colours points by z − rest, from percentiles; grey is at 0, and steps are alike on both sides. */
export function activationRange(latent: Latent): { low: number; high: number; reach: number } {
  const [low, high] = robustRange(allAboveRest(latent));
  return { low: Math.min(0, low), high: Math.max(0, high), reach: Math.max(Math.abs(low), Math.abs(high)) };
}

/** Halfway from rest to the strongest activation: a level that has points on both sides. */
export function startingLevel(latent: Latent): number {
  const steps = allAboveRest(latent);
  const strongest = steps.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
  return Number((latent.rest + strongest / 2).toPrecision(3));
}
