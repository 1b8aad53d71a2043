// The paper's example geometries in words.
import type { LatentPattern, PatternControl, PatternKind } from "../data/schema.ts";
import { visible } from "../data/vocabulary.ts";
import { percent } from "./format.ts";

/** As in quadric/evidence/patterns/statistics.py. */
const SMALLEST_GAIN = 0.1;
const JOINTS: Record<string, string> = { cluster: "; ", interpolation: " – " };

/** The tokens that show a pattern; of many clusters, a site names only some. */
export function tokensOf({ name, statistic, tokens }: LatentPattern): string {
  const joint = JOINTS[name] ?? " · ";
  const more = name === "cluster" && statistic !== null && statistic > tokens.length ? `${joint}…` : "";
  return tokens.map(visible).join(joint) + more;
}

/** How strongly a latent shows a pattern. */
export function strength({ name, statistic }: LatentPattern): string {
  if (statistic === null) return "nothing to test";
  if (name === "cone") return `${statistic.toFixed(2)} times as long as wide`;
  if (name === "cluster") return statistic === 1 ? "1 cluster" : `${statistic} clusters`;
  if (name === "interpolation") return `stretch ${statistic.toFixed(2)}`;
  if (name === "subset") return `a neighbour explains ${percent(statistic)} of the sign`;
  return statistic.toPrecision(3);
}

/** The same, short enough for the end of a line. */
export function brief({ name, statistic }: LatentPattern): string {
  if (statistic === null) return "";
  if (name === "cluster") return String(statistic);
  return name === "subset" ? percent(statistic) : statistic.toFixed(1) + (name === "cone" ? "×" : "");
}

/** A p-value with two digits, or an upper bound where it is tiny. */
export function pValue(p: number): string {
  return p < 0.0001 ? "p < 0.0001" : `p = ${Number(p.toPrecision(2))}`;
}

/** Strength, and the p-value where the test has one. */
export function evidence(test: LatentPattern): string {
  return test.p_value === null ? strength(test) : `${strength(test)}, ${pValue(test.p_value)}`;
}

/** Why a pattern does not count whatever its p-value; null where the p-value decides. */
function tooWeak(test: LatentPattern): string | null {
  if (test.name === "cone" && test.statistic !== null && test.statistic <= 1) return `${strength(test)}, so not longer than wide`;
  if (test.name === "subset" && test.statistic !== null && test.statistic < SMALLEST_GAIN) {
    return `${strength(test)}; ${percent(SMALLEST_GAIN)} are needed`;
  }
  return null;
}

/** What was tested and not found, and why; empty where every pattern was found. */
export function notFound(tests: LatentPattern[]): string {
  const parts = tests.filter(({ shown }) => !shown).map((test) => `${test.name} (${tooWeak(test) ?? evidence(test)})`);
  return parts.length ? `Not found: ${parts.join(", ")}.` : "";
}

/** How many latents show a pattern. */
export function frequency(kind: PatternKind): string {
  return kind.n_tested ? count(kind) : "nothing to test";
}

/** Controls in which the pattern is about as frequent; where it was never found there is nothing to doubt. */
export function doubts({ n_shown, controls }: PatternKind): PatternControl[] {
  return n_shown ? controls.filter(({ is_exceeded }) => !is_exceeded) : [];
}

/** What a reader should know before believing an example. */
export function verdict(kind: PatternKind): string {
  if (!kind.n_tested) return "No latent could be tested.";
  if (!kind.n_shown) return "No latent passes.";
  const names = doubts(kind).map(({ name }) => name);
  return names.length ? `Cannot be told from ${names.join(", nor from ")}.` : "More frequent than in every control.";
}

/** The controls in words, for a tooltip. */
export function controlsInWords({ controls }: PatternKind): string {
  return controls.map((each) => `${count(each)} with ${each.name}${each.is_own ? "" : " (on quadric demo)"}`).join("; ");
}

export function count({ n_shown, n_tested }: { n_shown: number; n_tested: number }): string {
  return `${n_shown.toLocaleString("en")} of ${n_tested.toLocaleString("en")}`;
}
