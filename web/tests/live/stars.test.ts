import assert from "node:assert/strict";
import { test } from "node:test";
import { namedStars, starsIn } from "../../src/live/stars.ts";
import { frameOf, positionsOf, shownAxes } from "../../src/scene/geometry.ts";
import { PARABOLOID } from "../scene/latents.ts";

/** The latent's own points, given as stars. */
const AS_STARS = {
  words: Array.from(PARABOLOID.values, (_, i) => `w${i}`),
  tokens: Array.from(PARABOLOID.values, (_, i) => i),
  values: [...PARABOLOID.values],
  coordinates: PARABOLOID.coordinates.map((row) => [...row]),
  linear: [...PARABOLOID.linear],
  control: PARABOLOID.control.map((row) => [...row]),
};

test("a star with the coordinates of a point lies on the point, under every control", () => {
  for (const control of [null, "linear", "random"] as const) {
    const shown = shownAxes(PARABOLOID, [0, 1, 2], control);
    const frame = frameOf(shown);
    const positions = positionsOf(shown, frame);
    const stars = starsIn(PARABOLOID, AS_STARS, [0, 1, 2], control, frame);
    assert.ok(stars.length > 0);
    stars.forEach(({ at }, i) => assert.deepEqual(at, [...positions.subarray(3 * i, 3 * i + 3)]));
  }
});

test("the stars furthest from rest are named", () => {
  const stars = [0.1, -3, 2, 0].map((step) => ({ at: [0, 0, 0] as [number, number, number], word: "", step }));
  assert.deepEqual([...namedStars(stars, 2)].sort(), [1, 2]);
});
