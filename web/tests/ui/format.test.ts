import assert from "node:assert/strict";
import { test } from "node:test";
import { axisName, shortened, signed } from "../../src/ui/format.ts";

test("a long text is cut between characters, and a short one is kept", () => {
  assert.equal(shortened("setosa", 6), "setosa");
  assert.equal(shortened("setosa", 5), "seto…");
  assert.equal(shortened("😀😀😀", 2), "😀…");
});

test("numbers have a sign, and axes a name", () => {
  assert.equal(signed(-0.1234), "−0.12");
  assert.equal(signed(0), "+0.0");
  assert.equal(axisName(11, -2), "λ₁₂ = −2.0");
  assert.equal(axisName(null, 0), "random direction");
});
