import assert from "node:assert/strict";
import { test } from "node:test";
import {
  capturedBy,
  eigenvaluesOfAxes,
  frameOf,
  linearAxis,
  originIn,
  positionsOf,
  shownAxes,
  showsAllItReads,
} from "../../src/scene/geometry.ts";
import { DIRECTION, latentWith, PARABOLOID } from "./latents.ts";

const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

test("axes are eigenvectors or the linear direction, each with its own coefficients", () => {
  const shown = shownAxes(PARABOLOID, [0, 2, 3], null);
  assert.deepEqual(
    shown.map(({ kind, rank, quadratic, linear }) => [kind, rank, quadratic, linear]),
    [
      ["eigenvector", 0, 2, 0],
      ["linear", -1, 0, -0.5],
      ["eigenvector", 2, -0.25, 0],
    ],
  );
  assert.equal(shown[1].values, PARABOLOID.coordinates[2]);
});

test("axes know their eigenvalue, though those that count come first", () => {
  assert.deepEqual(eigenvaluesOfAxes(PARABOLOID), [0, 1, -1, 2]);
  const swapped = { axisKind: Int32Array.of(0, 1, 0, 0, -1), axisQuadratic: Float32Array.of(1, 0, 1.98, -0.25, 0) };
  assert.deepEqual(eigenvaluesOfAxes(latentWith({ ...PARABOLOID, ...swapped })), [1, -1, 0, 2, -1]);
  const equal = { eigenvalues: Float32Array.of(1, 1), axisKind: Int32Array.of(0, 0, 0), axisQuadratic: Float32Array.of(1, 1, 1) };
  assert.deepEqual(eigenvaluesOfAxes(latentWith(equal)), [0, 1, -1]);
  assert.equal(linearAxis(PARABOLOID), 2);
  assert.equal(linearAxis(latentWith({ axisKind: Int32Array.of(0) })), -1);
});

test("an axis beyond those of the latent is a random direction on which z does not depend", () => {
  const flat = latentWith({ ...PARABOLOID, axisKind: Int32Array.of(0, 0, -1, -1) });
  for (const axes of [
    [0, 1, 2],
    [0, 1, 9],
  ]) {
    const { kind, quadratic, linear, values } = shownAxes(flat, axes, null)[2];
    assert.deepEqual([kind, quadratic, linear], ["random", 0, 0]);
    assert.equal(values, flat.control[2]);
  }
});

test("controls replace the latent's axes: all three, or X by the best linear direction", () => {
  const kinds = (control: "random" | "linear") => shownAxes(PARABOLOID, [0, 1, 2], control).map(({ kind }) => kind);
  assert.deepEqual(kinds("random"), ["random", "random", "random"]);
  assert.deepEqual(kinds("linear"), ["predictor", "random", "random"]);
  const shown = shownAxes(PARABOLOID, [0, 1, 2], "linear");
  assert.deepEqual([shown[0].values, shown[1].values], [PARABOLOID.linear, PARABOLOID.control[1]]);
  assert.ok(shown.every(({ quadratic, linear }) => quadratic === 0 && linear === 0));
});

test("captured is the share of all |λ|, listed or not, and the linear direction has none", () => {
  assert.equal(capturedBy(PARABOLOID, shownAxes(PARABOLOID, [0, 1, 2], null)), 0.75);
  assert.equal(capturedBy(PARABOLOID, shownAxes(PARABOLOID, [1, 2, 3], null)), 0.3125);
  assert.equal(capturedBy(PARABOLOID, shownAxes(PARABOLOID, [0, 1, 2], "random")), 0);
});

test("the frame holds all points and the origin, and has a size even when empty", () => {
  const shown = shownAxes(PARABOLOID, [0, 1, 2], null);
  const frame = frameOf(shown);
  near(frame.centre[0], 0.15);
  near(frame.centre[2], -0.2);
  near(frame.radius, 0.4);
  for (const place of [...positionsOf(shown, frame), ...originIn(frame)]) assert.ok(Math.abs(place) <= 1 + 1e-6);
  const empty = shown.map((axis) => ({ ...axis, values: new Float32Array() }));
  assert.deepEqual(frameOf(empty), { centre: [0, 0, 0], radius: 1 });
});

test("the axes of a direction are what it writes, what it reads besides, and components of the data", () => {
  const shown = shownAxes(DIRECTION, [0, 1, 2], null);
  assert.deepEqual(
    shown.map(({ kind, rank }) => [kind, rank]),
    [
      ["decoder", -1],
      ["encoder", -1],
      ["component", -1],
    ],
  );
  assert.equal(showsAllItReads(DIRECTION, shown), true);
  assert.equal(showsAllItReads(DIRECTION, shownAxes(DIRECTION, [0, 2, 3], null)), false);
  assert.equal(showsAllItReads(DIRECTION, shownAxes(DIRECTION, [0, 1, 2], "random")), false);
  assert.equal(capturedBy(DIRECTION, shown), 0);
});
