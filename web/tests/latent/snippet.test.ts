import assert from "node:assert/strict";
import { test } from "node:test";
import type { DictionaryEntry } from "../../src/data/schema.ts";
import { snippet } from "../../src/latent/snippet.ts";

test("the Python snippet quotes what it was given", () => {
  const entry = { source: 'runs/"x"', source_autoencoder: "composite" } as DictionaryEntry;
  assert.match(snippet(entry, 7), /quadric\.load\("runs\/\\"x\\"", name="composite"\)/);
  assert.match(snippet({ ...entry, source_autoencoder: null }, 7), /quadric\.load\("runs\/\\"x\\""\)/);
});

test("the snippet of an autoencoder that was never saved says how to save it", () => {
  const code = snippet({ source: null, source_autoencoder: null } as DictionaryEntry, 7);
  assert.match(code, /save_pretrained\("my-autoencoder"\)/);
  assert.match(code, /geometry\.read\(autoencoder, 7\)/);
  assert.doesNotMatch(code, /null/);
});

test("the snippet of a dictionary that does not know its mean says so", () => {
  const entry = { source: "runs/x", source_autoencoder: null, lens: "paper" } as DictionaryEntry;
  assert.match(snippet(entry, 7), /centre=mean/);
  assert.doesNotMatch(snippet({ ...entry, lens: "affine" }, 7), /centre=mean/);
});

test("the snippet of a linear dictionary prints the latent's direction, not eigenvalues", () => {
  const entry = { source: "runs/x", source_autoencoder: null, lens: "none", is_linear: true } as DictionaryEntry;
  assert.match(snippet(entry, 7), /autoencoder\.decoder\[7\]/);
  assert.doesNotMatch(snippet(entry, 7), /eigenvalues/);
});
