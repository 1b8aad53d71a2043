import { useEffect, useMemo, useState } from "preact/hooks";
import { Camera } from "../scene/camera.ts";
import { alongSequence, css, PALETTES } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { choicesOf, colourRange, statistic } from "../data/statistics.ts";
import type { Index, Site, Unit } from "../data/site.ts";
import { Filters } from "./filters.tsx";
import { useKeptCamera, useKeys, useLoaded, zoomKeys } from "../ui/hooks.ts";
import { Scale, Swatch } from "../ui/legend.tsx";
import { LatentList } from "./list.tsx";
import { ExampleGeometries } from "./patterns.tsx";
import { QualityPanel } from "./quality.tsx";
import { WorthALook } from "./worth.tsx";
import { foldedUnder, layoutOf, listed, originals, passing, routeFor } from "./selection.ts";
import { MapScene } from "./map-scene.tsx";
import { LATENT } from "../ui/route.ts";
import type { MapRoute, Route } from "../ui/route.ts";
import { SHAPES } from "../data/schema.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { ProblemPage, Skeleton } from "../ui/states.tsx";

interface Props {
  site: Site;
  entry: DictionaryEntry;
  route: MapRoute;
  theme: Theme;
  go: (route: Route, remember: boolean) => void;
}

/** Selection and camera refer to places on the map, so they are reset when the layout changes. */
const RESET_VIEW = { lasso: null, camera: null };

export function MapPage(props: Props) {
  const { site, entry } = props;
  const { value: index, error } = useLoaded(entry.name, () => site.index(entry));
  useEffect(() => {
    document.title = `${site.manifest.title} · Quadric`;
  }, []);
  if (error) return <ProblemPage error={error} />;
  if (!index) return <Skeleton what="the map" />;
  return <LoadedMap {...props} index={index} />;
}

function LoadedMap({ site, entry, route: asked, theme, go, index }: Props & { index: Index }) {
  const route = useMemo(() => routeFor(entry.is_linear, asked), [entry, asked]);
  const [hovered, setHovered] = useState<number | null>(null);
  const [selecting, setSelecting] = useState(false);
  const unit = site.unit(entry);
  const layout = useMemo(() => layoutOf(index, route), [index, route.layout, route.x, route.y]);
  const passes = useMemo(
    () => passing(index, route, layout),
    [index, layout, JSON.stringify(route.filters), route.hideDense, route.showEmpty, route.lasso?.join()],
  );
  const sources = useMemo(() => originals(index), [index]);
  const folded = useMemo(
    () => (route.showCopies ? new Uint8Array(passes.length) : foldedUnder(sources, passes)),
    [sources, passes, route.showCopies],
  );
  const list = useMemo(() => listed(index, route, passes), [index, passes, route.sort, route.ascending]);
  const camera = useMemo(() => new Camera(), []);
  const keepCamera = useKeptCamera(camera, route, go);
  const change = (part: Partial<MapRoute>) => go({ ...route, ...part }, false);
  const open = (latent: number) => go({ ...LATENT, dictionary: entry.name, latent }, true);
  useKeys({
    u: () => index.columns.umap_x && change({ layout: route.layout === "umap" ? "statistics" : "umap", ...RESET_VIEW }),
    l: () => setSelecting(!selecting),
    d: () => change({ hideDense: !route.hideDense }),
    ...zoomKeys(camera, keepCamera),
    Escape: () => change({ lasso: null }),
  });
  return (
    <main class="map-page">
      <header class="map-title">
        <h1>
          <bdi>{site.manifest.title}</bdi>
        </h1>
        <p class="quiet">
          <Account entry={entry} unit={unit} />
        </p>
      </header>
      <QualityPanel {...{ entry, unit, index }} />
      <div class="map-stage">
        <section class="panel map-panel" aria-label="Map of latents">
          <MapToolbar {...{ index, route, entry, selecting, change }} onSelecting={setSelecting} />
          <MapScene
            {...{ index, route, layout, passes, sources, folded, theme, hovered, selecting, camera }}
            onCamera={keepCamera}
            onHover={setHovered}
            onOpen={open}
            onLasso={(lasso) => {
              setSelecting(false);
              change({ lasso });
            }}
          />
          <MapLegend index={index} route={route} theme={theme} />
          <p class="quiet map-note">
            {route.layout === "umap"
              ? `UMAP: ${entry.umap ?? "none in this site"}. Distances on it mean little; neighbourhoods mean something.`
              : `Each dot is a latent. Drag to move, scroll to zoom, shift-drag to select; click one to open it.`}
          </p>
        </section>
        <WorthALook {...{ entry, index, hovered }} onHover={setHovered} />
      </div>
      <ExampleGeometries {...{ site, entry, index, hovered }} onHover={setHovered} />
      <div class="map-below">
        <Filters
          {...{ entry, index, route, unit }}
          passing={list.filter((latent) => !folded[latent]).length}
          copies={sources.filter((source, latent) => source !== latent).length}
          onChange={change}
        />
        <LatentList
          {...{ entry, unit, index, route, list, sources, folded, hovered }}
          onHover={setHovered}
          onChange={change}
        />
      </div>
    </main>
  );
}

/** What the colours of the map mean. */
function MapLegend({ index, route, theme }: { index: Index; route: MapRoute; theme: Theme }) {
  const { key, name, log, format } = statistic(route.colour);
  if (key === "shape")
    return (
      <ul class="map-legend" aria-label="Colours">
        {SHAPES.map(
          (shape, i) =>
            index.columns.shape!.includes(i) &&
            (route.showEmpty || shape !== "empty") && (
              <Swatch key={shape} colour={css(PALETTES[theme].categories[i])} name={shape} />
            ),
        )}
      </ul>
    );
  const [low, high] = colourRange(index.columns[key]!, log);
  return (
    <div class="map-legend" role="group" aria-label="Colours">
      <span>
        {name} {format(low)}
      </span>
      <Scale colour={(t) => alongSequence(theme, t)} />
      <span>
        {format(high)}
        {log ? ", log scale" : ""}
      </span>
    </div>
  );
}

/** Origin of the dictionary, as far as known. */
function Account({ entry, unit }: { entry: DictionaryEntry; unit: Unit }) {
  const { provenance, quality } = entry;
  const parts = [
    `${entry.n_latents.toLocaleString("en")} ${entry.is_linear ? `linear latents (${entry.prior})` : `latents, ${entry.prior} prior`}`,
    provenance.model && `${provenance.model}${provenance.hook_point ? `, ${provenance.hook_point}` : ""}`,
    provenance.corpus && `text ${provenance.corpus}`,
    unit === "row" && `${entry.sampling.n_tokens.toLocaleString("en")} rows of ${entry.d_model} numbers`,
    quality.cross_entropy_recovered !== null && `cross-entropy recovered ${quality.cross_entropy_recovered.toFixed(3)}`,
  ];
  return <>{parts.filter(Boolean).join(" · ")}</>;
}

interface ToolbarProps {
  index: Index;
  entry: DictionaryEntry;
  route: MapRoute;
  selecting: boolean;
  change: (part: Partial<MapRoute>) => void;
  onSelecting: (selecting: boolean) => void;
}

function MapToolbar({ index, entry, route, selecting, change, onSelecting }: ToolbarProps) {
  const umap = route.layout === "umap";
  return (
    <div class="toolbar" role="toolbar" aria-label="Map">
      <div class="segments" role="group" aria-label="Layout">
        <button type="button" aria-pressed={!umap} onClick={() => change({ layout: "statistics", ...RESET_VIEW })}>
          Statistics
        </button>
        <button
          type="button"
          aria-pressed={umap}
          disabled={!index.columns.umap_x}
          title={entry.umap ?? "This site has no UMAP"}
          onClick={() => change({ layout: "umap", ...RESET_VIEW })}
        >
          UMAP
        </button>
      </div>
      {!umap && <Choice name="X" entry={entry} value={route.x} onChoose={(x) => change({ x, ...RESET_VIEW })} />}
      {!umap && <Choice name="Y" entry={entry} value={route.y} onChoose={(y) => change({ y, ...RESET_VIEW })} />}
      <Choice name="Size" entry={entry} value={route.size} onChoose={(size) => change({ size })} />
      <Choice name="Colour" entry={entry} value={route.colour} onChoose={(colour) => change({ colour })} />
      <button
        type="button"
        aria-pressed={selecting}
        onClick={() => onSelecting(!selecting)}
        title="Draw around latents (key l, or shift-drag)"
      >
        Lasso
      </button>
      {route.lasso && (
        <button type="button" onClick={() => change({ lasso: null })}>
          Clear selection
        </button>
      )}
    </div>
  );
}

interface ChoiceProps {
  name: string;
  value: string;
  entry: DictionaryEntry;
  onChoose: (value: string) => void;
}

function Choice({ name, value, entry, onChoose }: ChoiceProps) {
  return (
    <label>
      {name}
      <select aria-label={name} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {choicesOf(entry.is_linear).map(({ key, name: title }) => (
          <option key={key} value={key}>
            {title.toLowerCase()}
          </option>
        ))}
      </select>
    </label>
  );
}
