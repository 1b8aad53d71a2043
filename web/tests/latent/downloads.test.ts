import assert from "node:assert/strict";
import { test } from "node:test";
import { cell } from "../../src/latent/downloads.ts";

test("a cell of the table can neither break out nor become a formula", () => {
  assert.equal(cell('a "b", c'), '"a ""b"", c"');
  assert.equal(cell("=1+1"), `"'=1+1"`);
  assert.equal(cell(" -2"), `"' -2"`);
});
