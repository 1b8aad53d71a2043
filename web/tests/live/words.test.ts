import assert from "node:assert/strict";
import { test } from "node:test";
import type { Explanation, TokenLatent } from "../../src/data/live.ts";
import { depthOf, endsLine, firingsOf, quantileText, rankOf, wordOf } from "../../src/live/words.ts";

const on = (latent: number): TokenLatent => ({ latent, label: "", value: 0, quantile: 0.99, share: 0.2, strength: 1 });
const token = (text: string, ...latents: number[]) => ({ text, token_id: 0, dropped: null, latents: latents.map(on) });
const firing = (at: number) => ({ token: at, value: 1, quantile: 0.99, share: 0.2, strength: 1 });
const FOUND: Explanation = {
  text: "a b",
  tokens: [token("a", 5, 7), token(" b", 7), token("", 9), token("c")],
  latents: [
    { latent: 7, label: "x", strength: 2, firings: [firing(0), firing(1)] },
    { latent: 5, label: "y", strength: 1, firings: [firing(0)] },
  ],
  ranking: "",
  notes: [],
};

test("a token has the colour of its strongest latent, if that one has a colour", () => {
  assert.deepEqual(FOUND.tokens.map((each) => rankOf(FOUND, each)), [1, 0, -1, -1]);
});

test("a latent's firings are found by token", () => {
  assert.deepEqual([...firingsOf(FOUND, 7).keys()], [0, 1]);
  assert.equal(firingsOf(FOUND, 99).size, 0);
});

test("hostile and empty tokens are visible", () => {
  assert.equal(wordOf("\u202eab"), "⟨U+202E⟩ab");
  assert.equal(wordOf("\n"), "⏎");
  assert.equal(wordOf(""), "‥");
  assert.ok(endsLine(" \n"));
});

test("quantiles beyond the known ones are bounds", () => {
  assert.deepEqual([0.999, 0.001, 0.9951, null].map(quantileText), ["> 99.9 %", "< 0.1 %", "99.5 %", ""]);
});

test("depth grows with strength and is bounded", () => {
  assert.deepEqual([-1, 0, 3, 99].map(depthOf), [0, 0, 1, 1]);
});
