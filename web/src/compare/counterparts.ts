// Which latents of two dictionaries are counterparts.
import type { ComparisonEntry } from "../data/schema.ts";
import { NOTHING } from "../data/schema.ts";

export interface Counterparts {
  entry: ComparisonEntry;
  /** Of each latent of one dictionary, its partner in the other, or NOTHING. */
  partners: Int32Array;
  /** |cosine| of the two forms; 0 where there is no partner. */
  overlaps: Float32Array;
}

export const SHOWN = ["all", "with", "without"] as const;
export type Shown = (typeof SHOWN)[number];
export const ORDERS = ["worth", "overlap", "latent"] as const;
export type Order = (typeof ORDERS)[number];

/** The same pairs, seen from the second dictionary. */
export function turned({ entry, partners, overlaps }: Counterparts, count: number): Counterparts {
  const back = new Int32Array(count).fill(NOTHING);
  const values = new Float32Array(count);
  partners.forEach((partner, latent) => {
    if (partner === NOTHING) return;
    back[partner] = latent;
    values[partner] = overlaps[latent];
  });
  return { entry, partners: back, overlaps: values };
}

export function hasCounterpart({ entry, partners, overlaps }: Counterparts, latent: number): boolean {
  return partners[latent] !== NOTHING && overlaps[latent] >= entry.smallest_overlap;
}

export function countWith(pairs: Counterparts): number {
  return pairs.partners.reduce((sum, _, latent) => sum + Number(hasCounterpart(pairs, latent)), 0);
}

/** Latents to list: those wanted, in the order wanted; ties by number. */
export function listed(pairs: Counterparts, worth: ArrayLike<number>, shown: Shown, order: Order): number[] {
  const all = Array.from(pairs.partners, (_, latent) => latent).filter(
    (latent) => shown === "all" || hasCounterpart(pairs, latent) === (shown === "with"),
  );
  const value = (latent: number) => (order === "worth" ? worth[latent] : order === "overlap" ? pairs.overlaps[latent] : -latent);
  return all.sort((a, b) => value(b) - value(a) || a - b);
}
