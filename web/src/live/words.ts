// Tokens as the page shows them, and their colours.
import type { Explanation, ExplainedToken, Firing } from "../data/live.ts";
import { visible } from "../data/vocabulary.ts";

/** Latents of a text that have a colour of their own. */
export const COLOURED = 7;

/** A token's text; what would be invisible is named, and a token that only ends a character has a mark. */
export function wordOf(text: string): string {
  return text === "" ? "‥" : visible(text);
}

/** Whether the next token goes on a new line. */
export function endsLine(text: string): boolean {
  return text.includes("\n");
}

/** Rank of the token's strongest latent among the coloured ones; −1 for all others. */
export function rankOf(found: Explanation, token: ExplainedToken): number {
  const best = token.latents[0]?.latent;
  return found.latents.slice(0, COLOURED).findIndex(({ latent }) => latent === best);
}

/** Where one latent fires, by token. */
export function firingsOf(found: Explanation, latent: number): Map<number, Firing> {
  const own = found.latents.find((each) => each.latent === latent);
  return new Map((own?.firings ?? []).map((firing) => [firing.token, firing]));
}

/** How strongly to colour, 0 to 1: a strength of 3 or more is full. */
export function depthOf(strength: number): number {
  return Math.min(1, Math.sqrt(Math.max(0, strength) / 3));
}

/** A quantile in percent; beyond the outermost known ones only the bound is known. */
export function quantileText(quantile: number | null): string {
  if (quantile === null) return "";
  if (quantile >= 0.999 - 1e-9) return "> 99.9 %";
  if (quantile <= 0.001 + 1e-9) return "< 0.1 %";
  return `${(100 * quantile).toFixed(1)} %`;
}
