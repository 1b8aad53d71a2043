import assert from "node:assert/strict";
import { test } from "node:test";
import { aboveRest, activationRange, largestStep, startingLevel } from "../../src/scene/activation.ts";
import { latentWith } from "./latents.ts";

const LATENT = latentWith({ rest: 2, values: Float32Array.of(-2, 5, 2.5, 1.5) });

test("activations count from rest", () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((point) => aboveRest(LATENT, point)),
    [-4, 3, 0.5, -0.5],
  );
  assert.equal(largestStep(LATENT), 4);
  assert.equal(startingLevel(LATENT), 0);
  assert.equal(startingLevel(latentWith({ rest: 2 })), 2);
});

test("an outlier does not use up the colours, and the scale has rest within it", () => {
  const values = Float32Array.from({ length: 1001 }, (_, i) => 2 + i / 1000);
  values[1000] = 500;
  const { low, high, reach } = activationRange(latentWith({ rest: 2, values }));
  assert.equal(low, 0);
  assert.ok(Math.abs(high - 0.98) < 1e-3 && reach === high);
});
