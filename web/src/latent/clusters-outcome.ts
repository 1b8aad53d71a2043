// What a search for clusters found, in words.
import type { LatentClusters } from "../data/schema.ts";
import type { Unit } from "../data/site.ts";

/** What a search found, in words; a latent without clusters says why. */
export function outcome({ clusters, n_stable, n_unstable, n_control }: LatentClusters, unit: Unit): string {
  const dropped = n_unstable ? ` ${count(n_unstable, "further group")} did not survive resampling.` : "";
  if (clusters.length)
    return `Groups of ${unit}s that lie together on this latent's axes. The controls have ${n_control ? `at most ${count(n_control, "stable group")}` : "no stable group"}.${dropped}`;
  if (!n_stable) return `No clusters: no group of ${unit}s survives resampling.`;
  const why =
    n_control >= n_stable
      ? "a control that has no structure has as many"
      : "the way points are drawn alone can make that many";
  return `No clusters: ${count(n_stable, "stable group")}, but ${why}.${dropped}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
