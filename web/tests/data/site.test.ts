import assert from "node:assert/strict";
import { test } from "node:test";
import { lastAtMost, starts } from "../../src/data/site.ts";

test("starts and the last of them at most a number", () => {
  const all = starts(Uint32Array.of(3, 2, 5));
  assert.deepEqual([...all], [0, 3, 5]);
  assert.deepEqual(
    [0, 2, 3, 4, 9].map((place) => lastAtMost(all, place)),
    [0, 0, 1, 1, 2],
  );
});
