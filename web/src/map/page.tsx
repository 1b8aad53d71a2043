import { useEffect, useMemo, useState } from "preact/hooks";
import { Camera } from "../scene/camera.ts";
import { alongSequence, css, PALETTES } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { ALL_STATISTICS, STATISTICS, statistic } from "../data/statistics.ts";
import type { Index, Site, Unit } from "../data/site.ts";
import { Filters } from "./filters.tsx";
import { useKeptCamera, useKeys, useLoaded, zoomKeys } from "../ui/hooks.ts";
import { LabelText } from "../ui/labels.tsx";
import { Scale, Swatch } from "../ui/legend.tsx";
import { drawnRange, layoutOf, listed, mostImportant, passing } from "./selection.ts";
import { MapScene } from "./map-scene.tsx";
import { formatRoute, LATENT } from "../ui/route.ts";
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

function LoadedMap({ site, entry, route, theme, go, index }: Props & { index: Index }) {
  const [hovered, setHovered] = useState<number | null>(null);
  const [selecting, setSelecting] = useState(false);
  const unit = site.unit(entry);
  const layout = useMemo(() => layoutOf(index, route), [index, route.layout, route.x, route.y]);
  const passes = useMemo(
    () => passing(index, route, layout),
    [index, layout, JSON.stringify(route.filters), route.hideDense, route.lasso?.join()],
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
      <div class="map-stage">
        <section class="panel map-panel" aria-label="Map of latents">
          <MapToolbar {...{ index, route, entry, selecting, change }} onSelecting={setSelecting} />
          <MapScene
            {...{ index, route, layout, passes, theme, hovered, selecting, camera }}
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
        <Important {...{ entry, index, hovered }} onHover={setHovered} />
      </div>
      <div class="map-below">
        <Filters {...{ index, route, unit }} passing={list.length} onChange={change} />
        <LatentList {...{ entry, unit, index, route, list, hovered }} onHover={setHovered} onChange={change} />
      </div>
    </main>
  );
}

interface HoverProps {
  entry: DictionaryEntry;
  index: Index;
  hovered: number | null;
  onHover: (latent: number | null) => void;
}

function Important({ entry, index, hovered, onHover }: HoverProps) {
  const important = useMemo(() => mostImportant(index), [index]);
  return (
    <aside class="panel important" aria-label="Most important latents">
      <h2>Most important</h2>
      <ol>
        {important.map((latent) => (
          <li
            key={latent}
            class={hovered === latent ? "hovered" : ""}
            onPointerEnter={() => onHover(latent)}
            onPointerLeave={() => onHover(null)}
          >
            <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
              <span class="number">{latent}</span>
              <LabelText index={index} latent={latent} />
              <span class="value">{statistic("importance").format(index.columns.importance![latent])}</span>
            </a>
          </li>
        ))}
      </ol>
      <p class="quiet">Labels are unevaluated.</p>
    </aside>
  );
}

/** What the colours of the map mean. */
function MapLegend({ index, route, theme }: { index: Index; route: MapRoute; theme: Theme }) {
  const { key, name, log, format } = statistic(route.colour);
  if (key === "shape")
    return (
      <ul class="map-legend" aria-label="Colours">
        {SHAPES.map((shape, i) => (
          <Swatch key={shape} colour={css(PALETTES[theme].categories[i])} name={shape} />
        ))}
      </ul>
    );
  const [low, high] = drawnRange(index.columns[key]!, log);
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

/** Origin and quality of the dictionary, as far as known. */
function Account({ entry, unit }: { entry: DictionaryEntry; unit: Unit }) {
  const { provenance, quality } = entry;
  const parts = [
    `${entry.n_latents.toLocaleString("en")} latents, ${entry.prior} prior`,
    provenance.model && `${provenance.model}${provenance.hook_point ? `, ${provenance.hook_point}` : ""}`,
    provenance.corpus && `text ${provenance.corpus}`,
    unit === "row" && `${entry.sampling.n_tokens.toLocaleString("en")} rows of ${entry.d_model} numbers`,
    quality.error !== null && `error ${quality.error.toFixed(3)}`,
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
      {!umap && <Choice name="X" value={route.x} onChoose={(x) => change({ x, ...RESET_VIEW })} />}
      {!umap && <Choice name="Y" value={route.y} onChoose={(y) => change({ y, ...RESET_VIEW })} />}
      <Choice name="Size" value={route.size} onChoose={(size) => change({ size })} />
      <Choice name="Colour" value={route.colour} onChoose={(colour) => change({ colour })} />
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

function Choice({ name, value, onChoose }: { name: string; value: string; onChoose: (value: string) => void }) {
  return (
    <label>
      {name}
      <select aria-label={name} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {ALL_STATISTICS.map(({ key, name: title }) => (
          <option key={key} value={key}>
            {title.toLowerCase()}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ListProps extends HoverProps {
  unit: Unit;
  route: MapRoute;
  list: number[];
  onChange: (part: Partial<MapRoute>) => void;
}

const PAGE = 40;

function LatentList({ entry, unit, index, route, list, hovered, onHover, onChange }: ListProps) {
  const [rows, setRows] = useState(PAGE);
  useEffect(() => setRows(PAGE), [list]);
  const sort = (key: string) =>
    onChange(route.sort === key ? { ascending: !route.ascending } : { sort: key, ascending: false });
  const heading = (key: string, name: string, explain: string) => (
    <th scope="col" key={key} aria-sort={route.sort === key ? (route.ascending ? "ascending" : "descending") : "none"}>
      <button type="button" class="plain" title={explain} onClick={() => sort(key)}>
        {name}
        <span aria-hidden="true">{route.sort === key ? (route.ascending ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
  return (
    <section class="panel list" aria-label="List of latents">
      <h2>
        {list.length === index.labels.length ? "All" : list.length.toLocaleString("en")} latents
        {list.length < index.labels.length && <span class="quiet"> of {index.labels.length.toLocaleString("en")}</span>}
      </h2>
      {list.length === 0 && <p class="quiet">No latent passes the filters; widen one.</p>}
      <div class="scrolls" tabIndex={0} role="region" aria-label="Latents">
        <table>
          <thead>
            <tr>
              {heading("latent", "Latent", "By index")}
              <th scope="col" class="wide">
                Label
              </th>
              <th scope="col">Shape</th>
              {STATISTICS.map(({ key, name, explain }) => heading(key, name, explain(unit)))}
            </tr>
          </thead>
          <tbody>
            {list.slice(0, rows).map((latent) => (
              <LatentRow key={latent} {...{ entry, index, hovered, onHover, latent }} />
            ))}
          </tbody>
        </table>
      </div>
      {rows < list.length && (
        <button type="button" onClick={() => setRows(rows + 5 * PAGE)}>
          Show more ({rows} of {list.length.toLocaleString("en")})
        </button>
      )}
    </section>
  );
}

function LatentRow({ entry, index, hovered, onHover, latent }: HoverProps & { latent: number }) {
  return (
    <tr
      class={hovered === latent ? "hovered" : ""}
      onPointerEnter={() => onHover(latent)}
      onPointerLeave={() => onHover(null)}
    >
      <td class="number">{latent}</td>
      <th scope="row">
        <a href={formatRoute({ ...LATENT, dictionary: entry.name, latent })}>
          <LabelText index={index} latent={latent} />
        </a>
      </th>
      <td>{SHAPES[index.columns.shape![latent]]}</td>
      {STATISTICS.map(({ key, format }) => (
        <td key={key} class="value">
          {format(index.columns[key]![latent])}
        </td>
      ))}
    </tr>
  );
}
