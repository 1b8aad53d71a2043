// The level sets of a latent on the axes shown: Σ(quadratic·ξ² + linear·ξ) + constant = τ.
import type { Frame, ShownAxis } from "./geometry.ts";
import type { Rgb } from "./scatter.ts";

/** z on the slice through the mean token that the three axes span, as a function of the coordinates ξ. */
export interface Slice {
  quadratic: Rgb;
  linear: Rgb;
  constant: number;
}

/** Radius of the ball to which surfaces are clipped, in units of the frame's. */
export const SURFACE_BOUND = 1.25;

/** An axis counts as curved, or as sloped, from this share of the largest part within the frame. */
const TOLERANCE = 0.02;

export function sliceOf(constant: number, shown: ShownAxis[]): Slice {
  return {
    quadratic: shown.map(({ quadratic }) => quadratic) as Rgb,
    linear: shown.map(({ linear }) => linear) as Rgb,
    constant,
  };
}

/** z at coordinates on the three axes. */
export function valueAt({ quadratic, linear, constant }: Slice, at: ArrayLike<number>): number {
  return quadratic.reduce((sum, each, i) => sum + each * at[i] ** 2 + linear[i] * at[i], constant);
}

/** The equation in units of the frame, s from the origin: Σ(quadratic·s² + linear·s) = level; largest coefficient 1. */
export function levelIn(slice: Slice, level: number, { radius }: Frame): { quadratic: Rgb; linear: Rgb; level: number } {
  const quadratic = slice.quadratic.map((each) => each * radius * radius);
  const linear = slice.linear.map((each) => each * radius);
  const largest = Math.max(...quadratic.map(Math.abs), ...linear.map(Math.abs)) || 1;
  return {
    quadratic: quadratic.map((each) => each / largest) as Rgb,
    linear: linear.map((each) => each / largest) as Rgb,
    level: (level - slice.constant) / largest,
  };
}

/** Which axes are curved and which only sloped, as far as the frame shows. */
function partsOf({ quadratic, linear }: Slice, radius: number): { curved: number[]; sloped: number[] } {
  const bends = quadratic.map((each) => Math.abs(each) * radius * radius);
  const slopes = linear.map((each) => Math.abs(each) * radius);
  const least = TOLERANCE * Math.max(...bends, ...slopes);
  const curved = [0, 1, 2].filter((i) => bends[i] > 0 && bends[i] >= least);
  const sloped = [0, 1, 2].filter((i) => !curved.includes(i) && slopes[i] > 0 && slopes[i] >= least);
  return { curved, sloped };
}

/** The quadric that a level draws, named by what its three axes show within the frame. */
export function surfaceName(slice: Slice, level: number, { radius }: Frame): string {
  const { curved, sloped } = partsOf(slice, radius);
  const { quadratic, linear, constant } = slice;
  const lambdas = curved.map((i) => quadratic[i]);
  const mixed = lambdas.some((lambda) => lambda > 0) && lambdas.some((lambda) => lambda < 0);
  if (sloped.length) return ["plane", "parabolic cylinder", mixed ? "hyperbolic paraboloid" : "elliptic paraboloid"][curved.length] ?? "quadric";
  const rest = level - (constant - curved.reduce((sum, i) => sum + linear[i] ** 2 / (4 * quadratic[i]), 0));
  if (curved.length === 1) return rest === 0 ? "plane" : "pair of planes";
  if (curved.length === 2) return mixed ? (rest === 0 ? "pair of crossing planes" : "hyperbolic cylinder") : "elliptic cylinder";
  if (!mixed) return "ellipsoid";
  if (rest === 0) return "cone";
  return lambdas.filter((lambda) => lambda * rest > 0).length === 2 ? "hyperboloid of one sheet" : "hyperboloid of two sheets";
}

/**
 * Share of the variance of z over the points that the slice accounts for; 0 where it does worse than their mean.
 *
 * It falls short of 1 where other axes matter, and where the constant differs from token to token, as it does in a
 * dictionary without a lens. Where z passed a gate, only points that passed it count: the others are 0 whatever the
 * slice says.
 */
export function explained(slice: Slice, shown: ShownAxis[], values: ArrayLike<number>, gated = false): number | null {
  const counted = Array.from(values).flatMap((value, i) => (gated && value <= 0 ? [] : [i]));
  if (counted.length < 2) return null;
  const mean = counted.reduce((sum, i) => sum + values[i], 0) / counted.length;
  let [missed, total] = [0, 0];
  for (const i of counted) {
    missed += (values[i] - valueAt(slice, shown.map((axis) => axis.values[i]))) ** 2;
    total += (values[i] - mean) ** 2;
  }
  return total > 0 ? Math.max(0, 1 - missed / total) : null;
}

/** Why a level set cannot be seen, or null. */
export function whyNoSurface(slice: Slice, level: number, frame: Frame): string | null {
  if (![...slice.quadratic, ...slice.linear].some((each) => each !== 0))
    return "The axes shown are not the latent's own, so there is no level set to draw.";
  const [low, high] = rangeOf(slice, () => [-Infinity, Infinity]);
  const beyond = `No point of the axes shown reaches z = ${level.toPrecision(2)}: there z is `;
  if (level < low) return `${beyond}at least ${low.toPrecision(2)}.`;
  if (level > high) return `${beyond}at most ${high.toPrecision(2)}.`;
  const reach = SURFACE_BOUND * frame.radius;
  const [least, most] = rangeOf(slice, (i) => [frame.centre[i] - reach, frame.centre[i] + reach]);
  if (level < least || level > most)
    return `The level set z = ${level.toPrecision(2)} lies beyond the picture, where z goes from ${least.toPrecision(2)} to ${most.toPrecision(2)}.`;
  return null;
}

/** Smallest and largest z where each coordinate stays within its bounds; the axes add up, so each is alone. */
function rangeOf({ quadratic, linear, constant }: Slice, bounds: (axis: number) => [number, number]): [number, number] {
  let [low, high] = [constant, constant];
  quadratic.forEach((bend, i) => {
    const slope = linear[i];
    if (bend === 0 && slope === 0) return;
    const ends = bounds(i);
    const turn = bend === 0 ? NaN : -slope / (2 * bend);
    const at = (x: number) =>
      Number.isFinite(x) ? x * (bend * x + slope) : bend !== 0 ? bend * Infinity : slope * x;
    const values = [...ends, ...(turn >= ends[0] && turn <= ends[1] ? [turn] : [])].map(at);
    low += Math.min(...values);
    high += Math.max(...values);
  });
  return [low, high];
}

/** The centre of the level sets in the frame's units, or null where they have none or it lies outside. */
export function centreIn(slice: Slice, frame: Frame): Rgb | null {
  const { curved, sloped } = partsOf(slice, frame.radius);
  if (!curved.length || sloped.length) return null;
  const at = [0, 1, 2].map((i) => (curved.includes(i) ? -slice.linear[i] / (2 * slice.quadratic[i]) : 0));
  const place = at.map((each, i) => (each - frame.centre[i]) / frame.radius) as Rgb;
  return Math.hypot(...place) <= SURFACE_BOUND ? place : null;
}
