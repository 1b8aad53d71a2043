// Which three axes of a latent the scene draws, at which scale, and what they leave out.
import type { Latent } from "../data/site.ts";
import type { Rgb } from "./scatter.ts";

export interface ShownAxis {
  /** Which eigenvector, or null for a random direction. */
  eigenvector: number | null;
  lambda: number;
  values: Float32Array;
}

/** Eigenvectors that have coordinates. */
export function drawableAxes(latent: Latent): number {
  return Math.min(latent.rank, latent.coordinates.length, latent.eigenvalues.length);
}

/** The axis in each of the three places; where a latent has too few, a random direction, with λ = 0. */
export function shownAxes(latent: Latent, axes: readonly number[], control: boolean): ShownAxis[] {
  return axes.map((axis, place) =>
    control || axis >= drawableAxes(latent)
      ? { eigenvector: null, lambda: 0, values: latent.control[place] }
      : { eigenvector: axis, lambda: latent.eigenvalues[axis], values: latent.coordinates[axis] },
  );
}

/** Share of Σ|λ| on the axes shown. */
export function capturedBy(latent: Latent, shown: ShownAxis[]): number {
  if (!(latent.totalWeight > 0)) return 0;
  return Math.min(1, shown.reduce((sum, axis) => sum + Math.abs(axis.lambda), 0) / latent.totalWeight);
}

/** What the picture frames: activations often lie to one side of the origin, which must stay visible too. */
export interface Frame {
  centre: Rgb;
  /** One scale for all axes, so that a circle stays a circle. */
  radius: number;
}

/** The middle of the points and the origin, and the largest extent about it. */
export function frameOf(shown: ShownAxis[]): Frame {
  const ends = shown.map(({ values }) => {
    let [low, high] = [0, 0];
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return [low, high];
  });
  const radius = Math.max(...ends.map(([low, high]) => (high - low) / 2));
  return { centre: ends.map(([low, high]) => (low + high) / 2) as Rgb, radius: radius || 1 };
}

export function positionsOf(shown: ShownAxis[], { centre, radius }: Frame): Float32Array {
  const count = shown[0].values.length;
  const positions = new Float32Array(3 * count);
  shown.forEach(({ values }, place) => {
    for (let i = 0; i < count; i++) positions[3 * i + place] = (values[i] - centre[place]) / radius;
  });
  return positions;
}

/** Position of the origin in the frame. */
export function originIn({ centre, radius }: Frame): Rgb {
  return centre.map((part) => -part / radius) as Rgb;
}

/** z = τ in the frame's units: Σ λ (radius·u)² = τ, with u from the origin. */
export function levelIn(shown: ShownAxis[], level: number, { radius }: Frame): { lambda: Rgb; level: number } {
  return { lambda: shown.map(({ lambda }) => lambda) as Rgb, level: level / (radius * radius) };
}

/** Why a level set cannot be seen, or null. */
export function whyNoSurface(shown: ShownAxis[], level: number): string | null {
  if (shown.every(({ lambda }) => lambda === 0))
    return "z does not depend on the axes shown, so there is no level set to draw.";
  if (level === 0) return null;
  const meets = shown.some(({ lambda }) => lambda * level > 0);
  return meets ? null : `No point of the axes shown reaches z = ${level.toPrecision(2)}: their λ have the other sign.`;
}

export function largestValue(latent: Latent): number {
  return latent.values.length ? Math.abs(latent.values[0]) : 0;
}

/** The quadric that three eigenvalues draw. */
export function surfaceName(shown: ShownAxis[], level: number): string {
  const counted = shown.map(({ lambda }) => lambda).filter((lambda) => lambda !== 0);
  const along = counted.filter((lambda) => lambda * level > 0).length;
  const against = counted.length - along;
  if (level === 0) return "cone";
  if (counted.length === 1) return "pair of planes";
  if (counted.length === 2) return against ? "hyperbolic cylinder" : "elliptic cylinder";
  if (against === 0) return "ellipsoid";
  return along === 2 ? "hyperboloid of one sheet" : "hyperboloid of two sheets";
}
