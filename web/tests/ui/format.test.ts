import assert from "node:assert/strict";
import { test } from "node:test";
import { axisName, columnName, fromRest, percent, shortened, signed } from "../../src/ui/format.ts";

test("a long text is cut between characters, and a short one is kept", () => {
  assert.equal(shortened("setosa", 6), "setosa");
  assert.equal(shortened("setosa", 5), "seto…");
  assert.equal(shortened("😀😀😀", 2), "😀…");
});

test("numbers have a sign, and axes a name", () => {
  assert.equal(signed(-0.1234), "−0.12");
  assert.equal(signed(0), "+0.0");
  const axis = (kind: Parameters<typeof axisName>[0]["kind"]) => ({ kind, rank: 11, quadratic: -2, linear: 0.5 });
  assert.equal(axisName(axis("eigenvector")), "v·e₁₂, λ = −2.0");
  assert.equal(axisName(axis("linear")), "linear, slope +0.50");
  assert.equal(axisName(axis("decoder")), "decoder, slope +0.50");
  assert.equal(axisName(axis("encoder")), "rest of encoder, slope +0.50");
  assert.equal(axisName(axis("component")), "principal component");
  assert.equal(axisName(axis("predictor")), "best linear direction");
  assert.equal(axisName(axis("random")), "random direction");
  assert.equal(columnName(axis("linear"), "the mean token"), "linear, slope +0.50, from the mean token");
});

test("activations are given from rest, and shares do not round to all or nothing", () => {
  assert.equal(fromRest(-0.25), "rest − 0.250");
  assert.equal(fromRest(0.5, 2), "rest + 0.50");
  assert.deepEqual([0, 0.001, 0.62, 0.998, 1].map(percent), ["0 %", "< 1 %", "62 %", "> 99 %", "100 %"]);
});
