import assert from "node:assert/strict";
import { test } from "node:test";
import { cell, snippet } from "../src/take-away.ts";
import type { DictionaryEntry } from "../src/schema.ts";

test("a cell of the table can neither break out nor become a formula", () => {
  assert.equal(cell('a "b", c'), '"a ""b"", c"');
  assert.equal(cell("=1+1"), `"'=1+1"`);
  assert.equal(cell(" -2"), `"' -2"`);
});

test("the Python snippet quotes what it was given", () => {
  const entry = { source: 'runs/"x"', source_autoencoder: "composite" } as DictionaryEntry;
  assert.match(snippet(entry, 7), /quadric\.load\("runs\/\\"x\\"", name="composite"\)/);
  assert.match(snippet({ ...entry, source_autoencoder: null }, 7), /quadric\.load\("runs\/\\"x\\""\)/);
});
