// Groups among a latent's points, each with its name and its stability.
import type { Cluster, DictionaryEntry, LatentClusters } from "../data/schema.ts";
import type { Latent, Unit } from "../data/site.ts";
import { css, ofCluster } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { sentence, shortened } from "../ui/format.ts";
import { outcome } from "./clusters-outcome.ts";
import { visible } from "../data/vocabulary.ts";

export interface FoundClusters {
  /** What the search of this latent found; null where it was not searched. */
  search: LatentClusters | null;
  clusters: Cluster[];
  /** The same for every latent that was searched. */
  others: Record<string, LatentClusters> | null;
}

interface Props {
  entry: DictionaryEntry;
  unit: Unit;
  theme: Theme;
  found: FoundClusters;
  isShown: boolean;
  onColour: () => void;
  onHover: (cluster: number | null) => void;
}

export function Clusters({ entry, unit, theme, found, isShown, onColour, onHover }: Props) {
  if (!entry.clusters) return null;
  const { search, clusters } = found;
  return (
    <section class="panel clusters" aria-label="Clusters">
      <header>
        <h2>Clusters</h2>
        {clusters.length > 0 && (
          <button type="button" aria-pressed={isShown} onClick={onColour}>
            Colour by cluster
          </button>
        )}
      </header>
      <p class="quiet">{search ? outcome(search, unit) : `Not searched: ${scope(entry.clusters)}.`}</p>
      {clusters.length > 0 && (
        <ol>
          {clusters.map((cluster, number) => (
            <li key={number}>
              <button
                type="button"
                class="cluster"
                onClick={() => isShown || onColour()}
                onPointerEnter={() => onHover(number)}
                onPointerLeave={() => onHover(null)}
                onFocus={() => onHover(number)}
                onBlur={() => onHover(null)}
              >
                <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
                  <circle cx="5" cy="5" r="4.5" fill={css(ofCluster(theme, number))} />
                </svg>
                <bdi class="label">{shortened(visible(cluster.name), 80) || "no name"}</bdi>
                <span class="quiet">
                  {cluster.n_points} {unit}s
                </span>
                <span class="value" title="Stability: mean Jaccard similarity with the groups of bootstrap resamples">
                  stability {cluster.stability.toFixed(2)}
                </span>
              </button>
            </li>
          ))}
        </ol>
      )}
      <details>
        <summary>How clusters are found</summary>
        <p class="quiet">{sentence(entry.clusters)}.</p>
      </details>
    </section>
  );
}

/** Points of a cluster. */
export function membersOf(latent: Latent, cluster: number | null): number[] {
  if (cluster === null) return [];
  return Array.from(latent.clusters, (each, i) => (each === cluster ? i : -1)).filter((i) => i >= 0);
}

/** Which latents were searched: the part of the method before its first colon. */
function scope(method: string): string {
  return `only ${method.split(":")[0]}`;
}
