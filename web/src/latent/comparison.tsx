// A second latent beside the first, with a shared camera.
import type { Camera } from "../scene/camera.ts";
import type { Theme } from "../scene/colours.ts";
import type { Index, Latent, Site, SiteText } from "../data/site.ts";
import type { Loaded } from "../ui/hooks.ts";
import { labelOf } from "../ui/labels.tsx";
import type { FoundClusters } from "./clusters.tsx";
import { LatentView } from "./view.tsx";
import { overlapOf } from "./neighbours.tsx";
import { formatRoute } from "../ui/route.ts";
import type { LatentRoute } from "../ui/route.ts";
import { Problem, Skeleton } from "../ui/states.tsx";

interface Props {
  site: Site;
  text: SiteText;
  theme: Theme;
  camera: Camera;
  latent: Latent;
  index: Index;
  /** What coordinates are measured from. */
  origin: string;
  /** The point of the first latent under the pointer. */
  hovered: number | null;
  route: LatentRoute;
  other: Loaded<Latent>;
  found: FoundClusters;
  onHover: (point: number | null) => void;
  onCamera: () => void;
  onClose: () => void;
}

export function Comparison(props: Props) {
  const { text, latent, index, hovered, route } = props;
  const versus = route.versus!;
  const { value: other, error } = props.other;
  const close = (
    <button type="button" class="plain" onClick={props.onClose}>
      End comparison
    </button>
  );
  if (error)
    return (
      <div class="comparison">
        <Problem error={error}>{close}</Problem>
      </div>
    );
  if (!other)
    return (
      <div class="comparison">
        <Skeleton what={`latent ${versus}`} />
      </div>
    );
  const twin = hovered === null ? -1 : other.places.indexOf(latent.places[hovered]);
  return (
    <div class="comparison" role="region" aria-label={`Comparison with latent ${versus}`}>
      <p class="comparison-title">
        <a href={formatRoute({ ...route, latent: versus, versus: latent.latent, axes: [0, 1, 2], pins: [] })}>
          {versus} <bdi>{labelOf(index, versus)}</bdi>
        </a>
        <span class="quiet">{overlapOf(latent, other)}</span>
        {close}
      </p>
      <LatentView
        {...props}
        text={text}
        latent={other}
        axes={[0, 1, 2]}
        control={route.control}
        eigenaxes={route.eigenaxes}
        colour={route.colour}
        clusters={props.found.others?.[versus]?.clusters ?? []}
        surface={route.surface}
        label={`3D scatter of latent ${versus}, turned together with the first`}
        marked={twin < 0 ? [] : [twin]}
        alone={false}
        pins={[]}
        onHover={(point) => {
          const same = point === null ? -1 : latent.places.indexOf(other.places[point]);
          props.onHover(same < 0 ? null : same);
        }}
        onPin={() => {}}
      />
    </div>
  );
}
