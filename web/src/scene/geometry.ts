// Which three directions the scene draws, at which scale, and what they leave out.
import { EIGENVECTOR, LINEAR_DIRECTION } from "../data/schema.ts";
import type { Latent } from "../data/site.ts";
import type { Rgb } from "./scatter.ts";

/** Directions that stand in for the latent's own, so that a reader can tell what is the latent's doing. */
export const CONTROLS = ["random", "linear"] as const;
export type Control = (typeof CONTROLS)[number] | null;

export interface ShownAxis {
  kind: "eigenvector" | "linear" | "predictor" | "random";
  /** Place among the eigenvectors, by |λ|; −1 for every other kind. */
  rank: number;
  /** z changes along the axis by quadratic·ξ² + linear·ξ; both are 0 where the axis is none of the latent's own. */
  quadratic: number;
  linear: number;
  values: Float32Array;
}

/** Whether points have coordinates on an axis that the latent has. */
export function isDrawable(latent: Latent, axis: number): boolean {
  return axis < latent.coordinates.length && (latent.axisKind[axis] ?? -1) >= 0;
}

/** The axis on which an eigenvalue is drawn, or −1. */
export function axisOfEigenvalue(latent: Latent, rank: number): number {
  let count = -1;
  return latent.axisKind.findIndex((kind, axis) => kind === EIGENVECTOR && ++count === rank && isDrawable(latent, axis));
}

/** The axis of the linear direction, or −1. */
export function linearAxis(latent: Latent): number {
  return latent.axisKind.findIndex((kind, axis) => kind === LINEAR_DIRECTION && isDrawable(latent, axis));
}

/** The direction in each of the three places; where a latent has too few, a random one. */
export function shownAxes(latent: Latent, axes: readonly number[], control: Control): ShownAxis[] {
  return axes.map((axis, place) => {
    if (control === "linear" && place === 0) return stranger("predictor", latent.linear);
    if (control || !isDrawable(latent, axis)) return stranger("random", latent.control[place]);
    const own = { quadratic: latent.axisQuadratic[axis], linear: latent.axisLinear[axis], values: latent.coordinates[axis] };
    if (latent.axisKind[axis] === LINEAR_DIRECTION) return { kind: "linear", rank: -1, ...own };
    const rank = latent.axisKind.subarray(0, axis).reduce((sum, kind) => sum + Number(kind === EIGENVECTOR), 0);
    return { kind: "eigenvector", rank, ...own };
  });
}

function stranger(kind: ShownAxis["kind"], values: Float32Array): ShownAxis {
  return { kind, rank: -1, quadratic: 0, linear: 0, values };
}

/** Share of Σ|λ| on the eigenvectors shown. */
export function capturedBy(latent: Latent, shown: ShownAxis[]): number {
  if (!(latent.totalWeight > 0)) return 0;
  const ranks = shown.filter(({ kind }) => kind === "eigenvector").map(({ rank }) => rank);
  const weight = ranks.reduce((sum, rank) => sum + Math.abs(latent.eigenvalues[rank] ?? 0), 0);
  return Math.min(1, weight / latent.totalWeight);
}

/** What the picture frames: points often lie to one side of the mean token, which must stay visible too. */
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

/** Position of the origin, the mean token, in the frame. */
export function originIn({ centre, radius }: Frame): Rgb {
  return centre.map((part) => -part / radius) as Rgb;
}
