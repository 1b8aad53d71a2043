// What the scene draws of a latent: which three axes, at which scale, and what they leave out.
import type { Latent } from "./data.ts";
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

/** The axis in each of the three places; where a latent has too few, a random direction, on which λ is nil. */
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

/** One scale for all axes, so that a circle stays a circle: the largest coordinate shown. */
export function radiusOf(shown: ShownAxis[]): number {
  let radius = 0;
  for (const { values } of shown) for (const value of values) radius = Math.max(radius, Math.abs(value));
  return radius || 1;
}

export function positionsOf(shown: ShownAxis[], radius: number): Float32Array {
  const count = shown[0].values.length;
  const positions = new Float32Array(3 * count);
  shown.forEach(({ values }, place) => {
    for (let i = 0; i < count; i++) positions[3 * i + place] = values[i] / radius;
  });
  return positions;
}

/** z = τ in units of the radius: Σ λ (radius·u)² = τ. */
export function levelIn(shown: ShownAxis[], level: number, radius: number): { lambda: Rgb; level: number } {
  return { lambda: shown.map(({ lambda }) => lambda) as Rgb, level: level / (radius * radius) };
}

/** Why a level set cannot be seen, or null. */
export function whyNoSurface(shown: ShownAxis[], level: number): string | null {
  if (shown.every(({ lambda }) => lambda === 0)) return "z does not depend on the axes shown, so there is no level set to draw.";
  if (level === 0) return null;
  const meets = shown.some(({ lambda }) => lambda * level > 0);
  return meets ? null : `No point of the axes shown reaches z = ${level.toPrecision(2)}: their λ have the other sign.`;
}

export function largestValue(latent: Latent): number {
  return latent.values.length ? Math.abs(latent.values[0]) : 0;
}

/** What kind of quadric three eigenvalues draw. */
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
