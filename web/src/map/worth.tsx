// The sidebar: latents worth a look, and the rule that ranks them.
import { useMemo } from "preact/hooks";
import type { Index } from "../data/site.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { statistic } from "../data/statistics.ts";
import { LabelText } from "../ui/labels.tsx";
import { formatRoute, LATENT } from "../ui/route.ts";
import { worthALook } from "./selection.ts";

export interface HoverProps {
  entry: DictionaryEntry;
  index: Index;
  hovered: number | null;
  onHover: (latent: number | null) => void;
}

export function WorthALook({ entry, index, hovered, onHover }: HoverProps) {
  const best = useMemo(() => worthALook(index), [index]);
  const { key, short, format } = statistic(entry.is_linear ? "firing_share" : "measured_curvature");
  return (
    <aside class="panel important" aria-label="Latents worth a look">
      <h2>
        Worth a look <span class="quiet">{short}</span>
      </h2>
      <ol>
        {best.map((latent) => (
          <li
            key={latent}
            class={hovered === latent ? "hovered" : ""}
            onPointerEnter={() => onHover(latent)}
            onPointerLeave={() => onHover(null)}
          >
            <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
              <span class="number">{latent}</span>
              <LabelText index={index} latent={latent} />
              <span class="value">{format(index.columns[key]![latent])}</span>
            </a>
          </li>
        ))}
      </ol>
      <p class="quiet">
        {entry.is_linear ? "Sparse, strong and distinct" : "Curved, sparse and distinct"} first: {entry.ranking}.{entry.labels.scored ? "" : " Labels are unevaluated."}
      </p>
    </aside>
  );
}
