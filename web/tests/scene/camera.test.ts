import assert from "node:assert/strict";
import { test } from "node:test";
import { Camera, HOME, rotationMatrix, VIEWS } from "../../src/scene/camera.ts";

test("a camera comes back from its numbers and refuses nonsense", () => {
  const camera = new Camera();
  assert.equal(camera.numbers(), null);
  camera.turn(0.3, -0.2);
  camera.zoomBy(1.5);
  const other = new Camera();
  other.restore(camera.numbers());
  assert.deepEqual(other.numbers(), camera.numbers());
  for (const nonsense of [[], [0, 0, 0, 0, 1, 0, 0], [1, 0, 0, NaN, 1, 0, 0]]) {
    other.restore(nonsense);
    assert.deepEqual(other.rotation, HOME);
  }
});

test("each view looks along its axis", () => {
  for (const [axis, name] of ["x", "y", "z"].entries()) {
    const matrix = rotationMatrix(VIEWS[name as "x"]);
    assert.ok(Math.abs(Math.abs(matrix[3 * axis + 2]) - 1) < 1e-6, name);
  }
});
