import assert from "node:assert/strict";
import { test } from "node:test";
import { lastAtMost, starts, unreadable } from "../../src/data/site.ts";

test("starts and the last of them at most a number", () => {
  const all = starts(Uint32Array.of(3, 2, 5));
  assert.deepEqual([...all], [0, 3, 5]);
  assert.deepEqual(
    [0, 2, 3, 4, 9].map((place) => lastAtMost(all, place)),
    [0, 0, 1, 1, 2],
  );
});

test("a site of another version says what to do: upgrade, or export it again", () => {
  assert.match(unreadable(1).join(" "), /too old.*schema version 1; this viewer reads version 2.*Export it again/);
  assert.match(unreadable(99).join(" "), /newer than its viewer.*pip install -U quadric/);
});
