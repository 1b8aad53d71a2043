import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_STATISTICS, colourRange, robustRange, robustScale, unitScale } from "../../src/data/statistics.ts";

const column = (...values: number[]) => Float32Array.from(values);

test("a logarithmic scale is even in ratios and puts nothing below its low end", () => {
  const scale = unitScale(column(1, 10, 100, 0), true);
  assert.deepEqual([0, 1, 10, 100].map(scale), [0, 0, 0.5, 1]);
  assert.equal(unitScale(column(2, 2), false)(2), 0.5);
});

test("colours follow the bulk of the data and saturate beyond it", () => {
  const values = column(...Array.from({ length: 101 }, (_, i) => i), 1e6);
  const [low, high] = robustRange(values);
  assert.ok(low === 2 && high < 101);
  const scale = robustScale(values, false);
  assert.deepEqual([scale(-5), scale(1e6)], [0, 1]);
  assert.deepEqual(colourRange(column(0, 0, 5, 5), true), [5, 5]);
  assert.deepEqual(robustRange(column(...Array(99).fill(0), 7)), [0, 7]);
  assert.deepEqual(robustRange([]), [0, 0]);
});

test("curvature and shape can be shown like any statistic", () => {
  const keys = ALL_STATISTICS.map(({ key }) => key as string);
  for (const key of ["measured_curvature", "curvature", "shape", "worth"]) assert.ok(keys.includes(key), key);
  assert.equal(new Set(keys).size, keys.length);
});
