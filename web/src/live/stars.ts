// The tokens of the reader's own text in a latent's picture.
import type { Stars } from "../data/live.ts";
import type { Latent } from "../data/site.ts";
import { positionsOf, shownAxes } from "../scene/geometry.ts";
import type { Control, Frame } from "../scene/geometry.ts";
import { wordOf } from "./words.ts";

export interface Star {
  /** In the units of the picture's frame. */
  at: [number, number, number];
  word: string;
  /** z − rest. */
  step: number;
}

/** Stars on the same three directions and in the same frame as the points. */
export function starsIn(
  latent: Latent,
  stars: Stars,
  axes: readonly number[],
  control: Control,
  frame: Frame,
): Star[] {
  const own = {
    ...latent,
    coordinates: stars.coordinates.map((row) => Float32Array.from(row)),
    control: stars.control.map((row) => Float32Array.from(row)),
    linear: Float32Array.from(stars.linear),
  };
  const positions = positionsOf(shownAxes(own, axes, control), frame);
  return stars.tokens.map((token, row) => ({
    at: [...positions.subarray(3 * row, 3 * row + 3)] as Star["at"],
    word: wordOf(stars.words[token]).trim() || "␣",
    step: stars.values[row] - latent.rest,
  }));
}

/** Which stars are named in the picture: the furthest from rest. */
export function namedStars(stars: Star[], most = 12): Set<number> {
  const order = stars.map((_, i) => i).sort((a, b) => Math.abs(stars[b].step) - Math.abs(stars[a].step));
  return new Set(order.slice(0, most));
}
