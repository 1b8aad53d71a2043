import assert from "node:assert/strict";
import { test } from "node:test";
import type { Latent } from "../../src/data/site.ts";
import {
  capturedBy,
  frameOf,
  levelIn,
  originIn,
  positionsOf,
  shownAxes,
  surfaceName,
  whyNoSurface,
} from "../../src/scene/geometry.ts";

const LATENT = {
  rank: 2,
  eigenvalues: Float32Array.of(2, -1),
  totalWeight: 4,
  coordinates: [Float32Array.of(0.5, 0), Float32Array.of(0, 0.25), Float32Array.of(0, 0)],
  control: [Float32Array.of(0.1, 0.1), Float32Array.of(0.2, 0.2), Float32Array.of(0.3, 0.3)],
  values: Float32Array.of(0.5, -0.0625),
} as unknown as Latent;

test("an axis beyond the rank is a random direction on which z does not depend", () => {
  const shown = shownAxes(LATENT, [0, 1, 2], false);
  assert.deepEqual(
    shown.map(({ eigenvector }) => eigenvector),
    [0, 1, null],
  );
  assert.equal(shown[2].lambda, 0);
  assert.equal(shown[2].values, LATENT.control[2]);
});

test("captured is the share of all |λ|, listed or not", () => {
  assert.equal(capturedBy(LATENT, shownAxes(LATENT, [0, 1, 2], false)), 0.75);
  assert.equal(
    capturedBy(
      LATENT,
      shownAxes(
        LATENT,
        [1, 2, 3].map((axis) => axis),
        false,
      ),
    ),
    0.25,
  );
  assert.equal(capturedBy(LATENT, shownAxes(LATENT, [0, 1, 2], true)), 0);
});

test("a point lies on the level set of its own activation, in the picture's units", () => {
  const shown = shownAxes(LATENT, [0, 1, 2], false);
  const frame = frameOf(shown);
  const positions = positionsOf(shown, frame);
  const origin = originIn(frame);
  for (const point of [0, 1]) {
    const { lambda, level } = levelIn(shown, LATENT.values[point], frame);
    const sum = lambda.reduce(
      (total, each, axis) => total + each * (positions[3 * point + axis] - origin[axis]) ** 2,
      0,
    );
    assert.ok(Math.abs(sum - level) < 1e-6);
  }
});

test("the frame holds all points and the origin, and has a size even when empty", () => {
  const shown = shownAxes(LATENT, [0, 1, 2], false);
  const frame = frameOf(shown);
  assert.deepEqual(
    frame.centre.map((part) => Math.round(1000 * part)),
    [250, 125, 150],
  );
  assert.equal(frame.radius, 0.25);
  for (const place of [...positionsOf(shown, frame), ...originIn(frame)]) assert.ok(Math.abs(place) <= 1 + 1e-6);
  const empty = shown.map((axis) => ({ ...axis, values: new Float32Array() }));
  assert.deepEqual(frameOf(empty), { centre: [0, 0, 0], radius: 1 });
});

test("a surface says what it is, or why there is none", () => {
  const axes = (...lambdas: number[]) =>
    lambdas.map((lambda) => ({ eigenvector: 0, lambda, values: new Float32Array() }));
  assert.equal(surfaceName(axes(1, 1, 1), 1), "ellipsoid");
  assert.equal(surfaceName(axes(1, 1, -1), 1), "hyperboloid of one sheet");
  assert.equal(surfaceName(axes(1, 1, -1), -1), "hyperboloid of two sheets");
  assert.equal(surfaceName(axes(1, 2, 0), 1), "elliptic cylinder");
  assert.equal(surfaceName(axes(1, -2, 0), 1), "hyperbolic cylinder");
  assert.equal(surfaceName(axes(1, 0, 0), 1), "pair of planes");
  assert.equal(whyNoSurface(axes(1, 1, -1), -1), null);
  assert.match(whyNoSurface(axes(1, 1, 1), -1)!, /other sign/);
  assert.match(whyNoSurface(axes(0, 0, 0), 1)!, /does not depend/);
});
