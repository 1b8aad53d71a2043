// The pictures of a latent and of its counterpart, with a shared camera.
import { useMemo } from "preact/hooks";
import { Camera } from "../scene/camera.ts";
import type { Theme } from "../scene/colours.ts";
import { NOTHING } from "../data/schema.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { originOf } from "../data/site.ts";
import type { Index, Site } from "../data/site.ts";
import { LatentView } from "../latent/view.tsx";
import { useLoaded } from "../ui/hooks.ts";
import { labelOf } from "../ui/labels.tsx";
import { formatRoute, LATENT } from "../ui/route.ts";
import { Problem, Skeleton } from "../ui/states.tsx";
import type { Counterparts } from "./counterparts.ts";

interface Props {
  site: Site;
  theme: Theme;
  entry: DictionaryEntry;
  other: DictionaryEntry;
  index: Index;
  otherIndex: Index;
  pairs: Counterparts;
  latent: number;
}

export function Pair({ site, theme, entry, other, index, otherIndex, pairs, latent }: Props) {
  const camera = useMemo(() => new Camera(), []);
  const partner = pairs.partners[latent] ?? NOTHING;
  if (partner === NOTHING) return null;
  return (
    <section class="panel picture comparing" aria-label="Pictures">
      <div class="views">
        <One {...{ site, theme, camera, entry, index, latent }} />
        <One {...{ site, theme, camera, entry: other, index: otherIndex, latent: partner }} />
      </div>
      <p class="quiet">
        Overlap {pairs.overlaps[latent].toFixed(2)}. Each latent is on its own three axes, so the same shape may be turned or mirrored.
      </p>
    </section>
  );
}

interface OneProps {
  site: Site;
  theme: Theme;
  camera: Camera;
  entry: DictionaryEntry;
  index: Index;
  latent: number;
}

function One({ site, theme, camera, entry, index, latent }: OneProps) {
  const found = useLoaded(`${entry.name} ${latent}`, () => site.latent(entry, latent));
  const text = useLoaded(entry.text, () => site.text(entry.text));
  const error = found.error ?? text.error;
  if (error) return <Problem error={error} />;
  if (!found.value || !text.value) return <Skeleton what={`latent ${latent}`} />;
  return (
    <div class="comparison">
      <p class="comparison-title">
        <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
          {latent} <bdi>{labelOf(index, latent)}</bdi>
        </a>
        <span class="quiet">
          <bdi>{entry.name}</bdi>
        </span>
      </p>
      <LatentView
        {...{ site, theme, camera }}
        text={text.value}
        latent={found.value}
        axes={LATENT.axes}
        control={null}
        eigenaxes
        colour="activation"
        clusters={[]}
        surface={null}
        label={`3D scatter of latent ${latent} of ${entry.name}`}
        origin={originOf(entry, text.value.unit)}
        marked={[]}
        alone={false}
        pins={[]}
        onHover={() => {}}
        onPin={() => {}}
        onCamera={() => {}}
      />
    </div>
  );
}
