import assert from "node:assert/strict";
import { test } from "node:test";
import { alongSequence, ofActivation, PALETTES, strongest } from "../../src/scene/colours.ts";

test("tokens rank by their share of Σz², not by their number", () => {
  const ranks = strongest([5, 5, 5, 7, 9], [0.1, -0.1, 0.1, 2, -1], 2);
  assert.deepEqual(
    [...ranks],
    [
      [7, 0],
      [9, 1],
    ],
  );
});

test("zero is grey, and the ends are the colours of the signs", () => {
  for (const theme of ["light", "dark"] as const) {
    const palette = PALETTES[theme];
    const same = (a: number[], b: number[]) => a.forEach((part, i) => assert.ok(Math.abs(part - b[i]) < 1e-9));
    same(ofActivation(theme, 0, 2), palette.quiet);
    same(ofActivation(theme, 2, 2), palette.positive);
    same(ofActivation(theme, -2, 2), palette.negative);
    same(alongSequence(theme, 0), palette.sequence[0]);
    same(alongSequence(theme, 1), palette.sequence.at(-1)!);
  }
});
