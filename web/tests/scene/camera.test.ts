import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, LATENT, parseRoute } from "../../src/ui/route.ts";
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

test("the address keeps every digit of a camera's numbers, however close it is", () => {
  const camera = new Camera();
  camera.zoomBy(23.4567);
  camera.shiftBy(12.3456, -0.00049);
  camera.turn(0.3, -0.2);
  const numbers = camera.numbers()!;
  const route = parseRoute(formatRoute({ ...LATENT, camera: numbers }));
  assert.ok(route.page === "latent");
  assert.deepEqual(route.camera, numbers.map((number) => number + 0)); // an address has no −0
});

test("each view looks along its axis", () => {
  for (const [axis, name] of ["x", "y", "z"].entries()) {
    const matrix = rotationMatrix(VIEWS[name as "x"]);
    assert.ok(Math.abs(Math.abs(matrix[3 * axis + 2]) - 1) < 1e-6, name);
  }
});
