// The panels of a latent's page.
import { useMemo, useRef } from "preact/hooks";
import type { Camera } from "../scene/camera.ts";
import type { Theme } from "../scene/colours.ts";
import { css, PALETTES } from "../scene/colours.ts";
import { Clusters, membersOf } from "./clusters.tsx";
import type { FoundClusters } from "./clusters.tsx";
import { Comparison } from "./comparison.tsx";
import { Contexts } from "./contexts.tsx";
import type { Index, Latent, Site, SiteText, Unit } from "../data/site.ts";
import { picture, pointsAsCsv, save } from "./downloads.ts";
import { Firing } from "./firing.tsx";
import type { Frame, ShownAxis } from "../scene/geometry.ts";
import type { StarMark } from "../scene/overlay.ts";
import type { Stars } from "../data/live.ts";
import type { Asked } from "../live/ask.ts";
import type { Loaded } from "../ui/hooks.ts";
import { LatentView } from "./view.tsx";
import { Neighbours } from "./neighbours.tsx";
import { Patterns } from "./patterns.tsx";
import { shortened } from "../ui/format.ts";
import { formatRoute } from "../ui/route.ts";
import type { LatentRoute } from "../ui/route.ts";
import type { Scatter } from "../scene/scatter.ts";
import type { DictionaryEntry, LatentPattern } from "../data/schema.ts";
import { Spectrum } from "./spectrum.tsx";
import { snippet } from "./snippet.ts";
import { ControlNote, Downloads, SurfaceControl, Toolbar } from "./toolbar.tsx";

/** The tokens of the reader's own text. */
export interface OwnText {
  asked: Asked<Stars>;
  stars: ((frame: Frame) => StarMark[]) | undefined;
}

export interface Page {
  site: Site;
  entry: DictionaryEntry;
  route: LatentRoute;
  theme: Theme;
  index: Index;
  text: SiteText;
  latent: Latent;
  camera: Camera;
  shown: ShownAxis[];
  captured: number;
  pins: number[];
  /** The point that the pointer or the focus is on, in the picture or in a list. */
  hovered: number | null;
  /** The neighbour that the pointer or the focus is on. */
  neighbour: number | null;
  found: FoundClusters;
  /** The tests of this latent for patterns; null where it was not tested. */
  patterns: LatentPattern[] | null;
  /** The cluster that the pointer or the focus is on. */
  cluster: number | null;
  /** Points that the neighbour has too. */
  shared: number[];
  /** The latent to compare with. */
  other: Loaded<Latent>;
  /** The reader's own text in a live viewer. */
  own: OwnText | null;
  label: string;
  /** What coordinates are measured from. */
  origin: string;
  change: (part: Partial<LatentRoute>) => void;
  pin: (point: number) => void;
  setHovered: (point: number | null) => void;
  setNeighbour: (latent: number | null) => void;
  setCluster: (cluster: number | null) => void;
  keepCamera: () => void;
}

export function PicturePanel(page: Page) {
  const { entry, route, theme, text, latent, shown, captured, label, change } = page;
  const scatter = useRef<Scatter | null>(null);
  const takePicture = async () => {
    if (!scatter.current) return;
    const overlay = scatter.current.canvas.nextElementSibling as HTMLCanvasElement;
    const caption = [`${entry.name} · latent ${latent.latent}: ${shortened(label, 90)}`, samplingText(entry, latent, text.unit)];
    const background = theme === "dark" ? "#121217" : "#fdfcfa";
    save(
      `latent-${latent.latent}.png`,
      await picture(scatter.current, overlay, background, css(PALETTES[theme].ink), caption),
    );
  };
  const takeTable = () =>
    save(
      `latent-${latent.latent}.csv`,
      new Blob([pointsAsCsv(latent, text, shown, page.origin)], { type: "text/csv;charset=utf-8" }),
    );
  const hasClusters = page.found.clusters.length > 0;
  const tools = { route, latent, unit: text.unit, hasClusters, shown, captured, onChange: change };
  return (
    <section class={`panel picture ${route.versus === null ? "" : "comparing"}`} aria-label="Picture">
      <Toolbar {...tools} />
      <div class="views">
        <OwnView {...page} onScatter={(each) => (scatter.current = each)} />
        {route.versus !== null && (
          <Comparison
            {...page}
            onHover={page.setHovered}
            onCamera={page.keepCamera}
            onClose={() => change({ versus: null })}
          />
        )}
      </div>
      <ControlNote control={route.control} unit={text.unit} isLinear={latent.isLinear} />
      <SurfaceControl {...tools} />
      <footer>
        <p class="badge">{samplingText(entry, latent, text.unit)}</p>
        <Downloads onPicture={takePicture} onTable={takeTable} snippet={snippet(entry, latent.latent)} />
      </footer>
    </section>
  );
}

function OwnView(page: Page & { onScatter: (scatter: Scatter | null) => void }) {
  const { route, text, latent, label, neighbour, cluster, shared, hovered } = page;
  const members = useMemo(() => membersOf(latent, cluster), [latent, cluster]);
  const group = neighbour !== null ? shared : cluster !== null ? members : null;
  return (
    <div class="comparison">
      {route.versus !== null && (
        <p class="comparison-title">
          <b>
            {latent.latent} <bdi>{label}</bdi>
          </b>
        </p>
      )}
      <LatentView
        {...page}
        axes={route.axes}
        control={route.control}
        eigenaxes={route.eigenaxes}
        colour={route.colour}
        surface={route.surface}
        label={`3D scatter of ${latent.values.length} ${text.unit}s for latent ${latent.latent}. Arrow keys rotate, plus and minus zoom; the same points are in the table below.`}
        stars={page.own?.stars}
        clusters={page.found.clusters}
        marked={group ?? (hovered !== null ? [hovered] : [])}
        alone={group !== null && group.length > 0}
        onHover={page.setHovered}
        onPin={page.pin}
        onCamera={page.keepCamera}
      />
    </div>
  );
}

export function SidePanels({ route, latent, text, captured, hovered, pins, other, change, pin, setHovered }: Page) {
  return (
    <aside class="side">
      <section class="panel" aria-label={latent.isLinear ? "Axes" : "Spectrum"}>
        <h2>{latent.isLinear ? "Axes" : "Spectrum"}</h2>
        <Spectrum
          {...{ latent, captured }}
          axes={route.axes}
          control={route.control !== null}
          onAxes={(axes) => change({ axes, control: null })}
        />
      </section>
      <section class="panel" aria-label="Contexts">
        <h2>Strongest {text.unit === "row" ? "rows" : "contexts"}</h2>
        <Contexts latent={latent} text={text} hovered={hovered} pins={pins} onHover={setHovered} onPin={pin} />
      </section>
      {other.value && (
        <section class="panel" aria-label={`Contexts of latent ${route.versus}`}>
          <h2>
            Strongest {text.unit === "row" ? "rows" : "contexts"} of {route.versus}
          </h2>
          <Contexts latent={other.value} text={text} hovered={null} pins={[]} onHover={() => {}} />
        </section>
      )}
    </aside>
  );
}

export function DetailPanels(page: Page) {
  const { entry, route, index, text, latent, neighbour, shared, change, setNeighbour } = page;
  const address = (other: number) =>
    formatRoute({ ...route, latent: other, axes: [0, 1, 2], pins: [], versus: null, surface: null });
  return (
    <div class="details">
      <Patterns entry={entry} patterns={page.patterns} />
      <Clusters
        {...page}
        unit={text.unit}
        isShown={route.colour === "cluster"}
        onColour={() => change({ colour: route.colour === "cluster" ? "activation" : "cluster" })}
        onHover={page.setCluster}
      />
      <section class="panel" aria-label="Firing">
        <h2>Firing</h2>
        <Firing latent={latent} entry={entry} index={index} text={text} />
      </section>
      <section class="panel" aria-label="Neighbours">
        <h2>Neighbours</h2>
        <p class="quiet neighbour-note">
          {neighbour === null
            ? `${latent.isLinear ? "By squared cosine of what latents write, their rows of the decoder" : "By overlap of the axes that count"}. Point at one to see the ${text.unit}s that both keep.`
            : `${shared.length} of these points are also points of latent ${neighbour}.`}
        </p>
        <Neighbours
          latent={latent}
          index={index}
          versus={route.versus}
          address={address}
          onCompare={(other) => change({ versus: route.versus === other ? null : other })}
          onHover={setNeighbour}
        />
      </section>
    </div>
  );
}

/** How the points were drawn: they are not a fair sample, and the page must say so. */
export function samplingText(entry: DictionaryEntry, latent: Latent, unit: Unit): string {
  const { sampling } = entry;
  const count = (number: number) => number.toLocaleString("en");
  const exponent = String(sampling.weight_exponent)
    .replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])
    .replace(".", "·");
  return `${count(latent.values.length)} of ${count(sampling.n_tokens)} ${unit}s, drawn with weight (|z − rest| + ${sampling.epsilon})${exponent}: strong activations are over-represented.${entry.labels.scored ? "" : " Labels are unevaluated."}`;
}
