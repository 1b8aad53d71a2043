import assert from "node:assert/strict";
import { test } from "node:test";
import { curvatureName, explainCurvature, explainWeights } from "../../src/latent/curvature.ts";

const curved = (curvature: number, measuredCurvature: number, isLinear = false) => ({ curvature, measuredCurvature, isLinear });

test("the chip names the larger share", () => {
  assert.equal(curvatureName(curved(0, 0.62)), "curved 62 %");
  assert.equal(curvatureName(curved(1, 0.09)), "linear 91 %");
  assert.equal(curvatureName(curved(1, 0.003)), "linear > 99 %");
});

test("its tooltip gives both figures", () => {
  assert.match(explainCurvature(curved(0.55, 0.62), "token"), /62 %.*weights alone.*55 %/);
  assert.match(explainWeights(curved(0.55, 0.55)), /weights alone.*55 %/);
  assert.doesNotMatch(explainCurvature(curved(0.55, 0.62), "row"), /token/);
});

test("a direction of a linear dictionary is never called curved, whatever its gate does to the figure", () => {
  const direction = curved(0, 0.8, true);
  assert.equal(curvatureName(direction), "linear");
  assert.match(explainCurvature(direction, "token"), /no curvature.*80 %.*its gate/);
  assert.match(explainWeights(direction), /planes/);
});
