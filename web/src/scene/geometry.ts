// Which three directions the scene draws, at which scale, and what they leave out.
import { EIGENVECTOR, LINEAR_DIRECTION, PRINCIPAL_COMPONENT, READING_DIRECTION } from "../data/schema.ts";
import type { Latent } from "../data/site.ts";
import type { Rgb } from "./scatter.ts";

/** Directions that stand in for the latent's own, so that a reader can tell what is the latent's doing. */
export const CONTROLS = ["random", "linear"] as const;
export type Control = (typeof CONTROLS)[number] | null;

export interface ShownAxis {
  kind: "eigenvector" | "linear" | "decoder" | "encoder" | "component" | "predictor" | "random";
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

/**
 * The eigenvalue of each axis, by its place in the list; −1 for an axis that is no eigenvector.
 *
 * Axes that count for the shape come first, whatever their |λ|, so the two orders may differ. An axis made orthogonal to
 * the linear direction has nearly its λ.
 */
export function eigenvaluesOfAxes({ eigenvalues, axisKind, axisQuadratic }: Latent): number[] {
  const free = new Set(eigenvalues.keys());
  return Array.from(axisKind, (kind, axis) => {
    if (kind !== EIGENVECTOR) return -1;
    const distance = (rank: number) => Math.abs(eigenvalues[rank] - axisQuadratic[axis]);
    let best = -1;
    for (const rank of free) if (best < 0 || distance(rank) < distance(best)) best = rank;
    free.delete(best);
    return best;
  });
}

/** The axis of the linear direction, or −1. */
export function linearAxis(latent: Latent): number {
  return latent.axisKind.findIndex((kind, axis) => kind === LINEAR_DIRECTION && isDrawable(latent, axis));
}

/** The direction in each of the three places; where a latent has too few, a random one. */
export function shownAxes(latent: Latent, axes: readonly number[], control: Control): ShownAxis[] {
  const ranks = eigenvaluesOfAxes(latent);
  return axes.map((axis, place) => {
    if (control === "linear" && place === 0) return stranger("predictor", latent.linear);
    if (control || !isDrawable(latent, axis)) return stranger("random", latent.control[place]);
    const own = { quadratic: latent.axisQuadratic[axis], linear: latent.axisLinear[axis], values: latent.coordinates[axis] };
    const kind = kindOf(latent, axis);
    return { kind, rank: kind === "eigenvector" ? ranks[axis] : -1, ...own };
  });
}

function kindOf({ axisKind, isLinear }: Latent, axis: number): ShownAxis["kind"] {
  if (axisKind[axis] === READING_DIRECTION) return "encoder";
  if (axisKind[axis] === PRINCIPAL_COMPONENT) return "component";
  if (axisKind[axis] === LINEAR_DIRECTION) return isLinear ? "decoder" : "linear";
  return "eigenvector";
}

/** Whether what the latent of a linear dictionary reads is among the axes shown, so that z before its gate is exact. */
export function showsAllItReads(latent: Latent, shown: ShownAxis[]): boolean {
  const sloped = Array.from(latent.axisKind.keys()).filter((axis) => latent.axisKind[axis] !== PRINCIPAL_COMPONENT);
  return sloped.every((axis) => !isDrawable(latent, axis) || shown.some(({ kind }) => kind === kindOf(latent, axis)));
}

function stranger(kind: ShownAxis["kind"], values: Float32Array): ShownAxis {
  return { kind, rank: -1, quadratic: 0, linear: 0, values };
}

/** Share of Σ|λ| on the eigenvectors shown. */
export function capturedBy(latent: Latent, shown: ShownAxis[]): number {
  if (!(latent.totalWeight > 0)) return 0;
  const own = shown.filter(({ kind }) => kind === "eigenvector");
  return Math.min(1, own.reduce((sum, { quadratic }) => sum + Math.abs(quadratic), 0) / latent.totalWeight);
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
