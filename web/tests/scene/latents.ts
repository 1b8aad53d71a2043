// A latent for tests: defaults that a test overrides where it matters.
import type { Latent } from "../../src/data/site.ts";

export function latentWith(part: Partial<Latent>): Latent {
  return {
    latent: 0,
    isLinear: false,
    eigenvalues: Float32Array.of(),
    rank: 0,
    totalWeight: 0,
    axisQuadratic: Float32Array.of(),
    axisLinear: Float32Array.of(),
    axisKind: Int32Array.of(),
    constant: 0,
    rest: 0,
    curvature: 1,
    measuredCurvature: 1,
    places: Uint32Array.of(),
    tokens: Uint32Array.of(),
    values: Float32Array.of(),
    coordinates: [],
    control: [Float32Array.of(), Float32Array.of(), Float32Array.of()],
    linear: Float32Array.of(),
    clusters: Int32Array.of(),
    contexts: [[], []],
    neighbours: [],
    quantiles: Float32Array.of(),
    lifts: [[], []],
    ...part,
  };
}

/** A paraboloid z = 2x² + y² − 0.5w + 0.1 on the axes e₁, e₂ and its linear direction, with λ₃ beyond them. */
export const PARABOLOID = latentWith({
  rank: 3,
  eigenvalues: Float32Array.of(2, 1, -0.25),
  totalWeight: 4,
  axisQuadratic: Float32Array.of(2, 1, 0, -0.25),
  axisLinear: Float32Array.of(0, 0, -0.5, 0),
  axisKind: Int32Array.of(0, 0, 1, 0),
  constant: 0.1,
  rest: 0.1,
  coordinates: [
    Float32Array.of(0.5, 0, -0.2),
    Float32Array.of(0, 0.25, 0.3),
    Float32Array.of(0.2, -0.6, 0.1),
    Float32Array.of(0, 0, 0),
  ],
  control: [Float32Array.of(0.1, 0.1, 0.1), Float32Array.of(0.2, 0.2, 0.2), Float32Array.of(0.3, 0.3, 0.3)],
  linear: Float32Array.of(0.7, 0.8, 0.9),
  values: Float32Array.of(0.5, 0.4625, 0.22),
});

/** A direction that writes along its first axis and reads along two, z = 0.8u + 0.6w − 0.2 where that passes its gate. */
export const DIRECTION = latentWith({
  isLinear: true,
  curvature: 0,
  axisQuadratic: Float32Array.of(0, 0, 0, 0),
  axisLinear: Float32Array.of(0.8, 0.6, 0, 0),
  axisKind: Int32Array.of(1, 2, 3, -1),
  constant: -0.2,
  coordinates: [
    Float32Array.of(1, 0.5, -1, 0.2),
    Float32Array.of(0, 0.5, 0, 0.1),
    Float32Array.of(3, -3, 2, 1),
    Float32Array.of(0, 0, 0, 0),
  ],
  values: Float32Array.of(0.6, 0.5, 0, 0),
  control: [Float32Array.of(1, 2, 3, 4), Float32Array.of(1, 2, 3, 4), Float32Array.of(1, 2, 3, 4)],
});
