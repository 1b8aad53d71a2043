import assert from "node:assert/strict";
import test from "node:test";
import type { LatentPattern, PatternKind } from "../../src/data/schema.ts";
import { brief, controlsInWords, doubts, evidence, frequency, notFound, pValue, tokensOf, verdict } from "../../src/ui/pattern-words.ts";

const cone: LatentPattern = { name: "cone", statistic: 3.148, p_value: 0.00389, shown: true, tokens: ["his", "He"] };
const nothing: LatentPattern = { name: "subset", statistic: null, p_value: null, shown: false, tokens: [] };
const kind = (more: Partial<PatternKind>): PatternKind => ({
  name: "cone",
  meaning: "a ray",
  statistic: "length",
  chance: "draws",
  n_shown: 15,
  n_tested: 64,
  controls: [
    { name: "heavy tails", n_shown: 39, n_tested: 64, is_own: true, is_exceeded: false },
    { name: "random directions", n_shown: 1, n_tested: 1064, is_own: false, is_exceeded: true },
  ],
  best: [],
  ...more,
});

test("a pattern is said with its strength and its p-value", () => {
  assert.equal(evidence(cone), "3.15 times as long as wide, p = 0.0039");
  assert.equal(evidence({ ...cone, name: "cluster", statistic: 5, p_value: null }), "5 clusters");
  assert.equal(evidence({ ...cone, name: "subset", statistic: 0.934 }), "a neighbour explains 93 % of the sign, p = 0.0039");
  assert.equal(evidence({ ...cone, name: "interpolation", statistic: 1.5 }), "stretch 1.50, p = 0.0039");
  assert.deepEqual([pValue(1), pValue(0.05), pValue(0.00002)], ["p = 1", "p = 0.05", "p < 0.0001"]);
  assert.deepEqual([brief(cone), brief(nothing)], ["3.1×", ""]);
});

test("tokens are joined as the pattern has them, and shown as they are", () => {
  assert.equal(tokensOf(cone), "his · He");
  assert.equal(tokensOf({ ...cone, name: "interpolation", tokens: ["of", "de", "\u202e"] }), "of – de – ⟨U+202E⟩");
  assert.equal(tokensOf({ ...cone, name: "cluster", statistic: 3, tokens: ["a · b", "c"] }), "a · b; c; …");
});

test("what was not found is listed, with what could not be tested", () => {
  assert.equal(notFound([cone, nothing]), "Not found: subset (nothing to test).");
  assert.equal(notFound([{ ...cone, shown: false, p_value: 0.6 }]), "Not found: cone (3.15 times as long as wide, p = 0.6).");
  assert.equal(notFound([cone]), "");
});

test("a pattern that is too weak to count is not given a p-value", () => {
  const weak = { ...cone, shown: false, statistic: 0.83, p_value: 0.0054 };
  assert.equal(notFound([weak]), "Not found: cone (0.83 times as long as wide, so not longer than wide).");
  const faint = { ...nothing, statistic: 0.04, p_value: 0.001 };
  assert.equal(notFound([faint]), "Not found: subset (a neighbour explains 4 % of the sign; 10 % are needed).");
});

test("a pattern as frequent in a control says so", () => {
  assert.equal(verdict(kind({})), "Cannot be told from heavy tails.");
  assert.equal(doubts(kind({})).length, 1);
  assert.equal(verdict(kind({ controls: kind({}).controls.slice(1) })), "More frequent than in every control.");
  assert.equal(controlsInWords(kind({})), "39 of 64 with heavy tails; 1 of 1,064 with random directions (on quadric demo)");
});

test("a pattern that no latent shows, or that could not be tested, is no doubt", () => {
  assert.equal(verdict(kind({ n_shown: 0 })), "No latent passes.");
  assert.deepEqual(doubts(kind({ n_shown: 0 })), []);
  assert.equal(verdict(kind({ n_shown: 0, n_tested: 0 })), "No latent could be tested.");
  assert.deepEqual([frequency(kind({})), frequency(kind({ n_tested: 0 }))], ["15 of 64", "nothing to test"]);
});
