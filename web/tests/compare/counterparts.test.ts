import assert from "node:assert/strict";
import { test } from "node:test";
import { countWith, hasCounterpart, listed, turned } from "../../src/compare/counterparts.ts";
import type { Counterparts } from "../../src/compare/counterparts.ts";

const PAIRS: Counterparts = {
  entry: { first: "a", second: "b", frobenius: 0.5, alignment: 0.5, smallest_overlap: 0.5, chance: 0.1, method: "" },
  partners: Int32Array.of(2, 0, -1, 3),
  overlaps: Float32Array.of(0.9, 0.3, 0, 0.5),
};

test("a counterpart has the stated overlap or more", () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((latent) => hasCounterpart(PAIRS, latent)),
    [true, false, false, true],
  );
  assert.equal(countWith(PAIRS), 2);
});

test("from the other side the pairs are the same", () => {
  const back = turned(PAIRS, 5);
  assert.deepEqual([...back.partners], [1, -1, 0, 3, -1]);
  assert.deepEqual([...back.overlaps].map((each) => Number(each.toFixed(2))), [0.3, 0, 0.9, 0.5, 0]);
  assert.equal(countWith(back), countWith(PAIRS));
  assert.deepEqual([...turned(back, 4).partners], [...PAIRS.partners]);
});

test("the list has what is wanted in the order wanted", () => {
  const worth = [0.1, 0.4, 0.3, 0.4];
  assert.deepEqual(listed(PAIRS, worth, "all", "worth"), [1, 3, 2, 0]);
  assert.deepEqual(listed(PAIRS, worth, "with", "overlap"), [0, 3]);
  assert.deepEqual(listed(PAIRS, worth, "without", "latent"), [1, 2]);
});
