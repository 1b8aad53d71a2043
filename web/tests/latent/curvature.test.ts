import assert from "node:assert/strict";
import { test } from "node:test";
import { curvatureName, explainCurvature, explainWeights } from "../../src/latent/curvature.ts";

test("the chip names the larger share", () => {
  assert.equal(curvatureName({ curvature: 0, measuredCurvature: 0.62 }), "curved 62 %");
  assert.equal(curvatureName({ curvature: 1, measuredCurvature: 0.09 }), "linear 91 %");
  assert.equal(curvatureName({ curvature: 1, measuredCurvature: 0.003 }), "linear > 99 %");
});

test("its tooltip gives both figures", () => {
  assert.match(explainCurvature({ curvature: 0.55, measuredCurvature: 0.62 }, "token"), /62 %.*weights alone.*55 %/);
  assert.match(explainWeights({ curvature: 0.55, measuredCurvature: 0.55 }), /weights alone.*55 %/);
  assert.doesNotMatch(explainCurvature({ curvature: 0.55, measuredCurvature: 0.62 }, "row"), /token/);
});
