import { useEffect, useMemo, useState } from "preact/hooks";
import { Camera, VIEWS } from "../scene/camera.ts";
import { COLOURINGS } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { statisticsOf } from "../data/statistics.ts";
import { Pins } from "./contexts.tsx";
import { originOf } from "../data/site.ts";
import type { Index, Latent, Site, SiteText, Unit } from "../data/site.ts";
import { capturedBy, shownAxes } from "../scene/geometry.ts";
import { keeping, useKeptCamera, useKeys, useLoaded, zoomKeys } from "../ui/hooks.ts";
import { LabelQuality, labelOf } from "../ui/labels.tsx";
import { DetailPanels, PicturePanel, SidePanels } from "./panels.tsx";
import type { OwnText, Page } from "./panels.tsx";
import { isLive } from "../data/live.ts";
import { useAnswer } from "../live/ask.ts";
import { SteerPanel, TextPanel } from "../live/panel.tsx";
import { namedStars, starsIn } from "../live/stars.ts";
import type { Frame } from "../scene/geometry.ts";
import { PatternChips } from "./patterns.tsx";
import { PointTable } from "./point-table.tsx";
import { shortened } from "../ui/format.ts";
import { formatRoute } from "../ui/route.ts";
import type { LatentRoute } from "../ui/route.ts";
import { SHAPES } from "../data/schema.ts";
import type { DictionaryEntry, LatentClusters, LatentPattern } from "../data/schema.ts";
import { ProblemPage, Skeleton } from "../ui/states.tsx";
import { visible } from "../data/vocabulary.ts";
import { startingLevel } from "../scene/activation.ts";
import { curvatureName, explainCurvature } from "./curvature.ts";

export interface LatentPageProps {
  site: Site;
  entry: DictionaryEntry;
  route: LatentRoute;
  theme: Theme;
  go: (route: LatentRoute, remember: boolean) => void;
}

export function LatentPage(props: LatentPageProps) {
  const { site, entry, route } = props;
  const index = useLoaded(entry.name, () => site.index(entry));
  const text = useLoaded(entry.text, () => site.text(entry.text));
  const latent = useLoaded(`${entry.name} ${route.latent}`, () => site.latent(entry, route.latent));
  const clusters = useLoaded(`clusters ${entry.name}`, () => site.clusters(entry));
  const patterns = useLoaded(`patterns ${entry.name}`, () => site.patterns(entry));
  const error = latent.error ?? index.error ?? text.error ?? clusters.error ?? patterns.error;
  const turnPage = (by: number) => {
    const to = (((route.latent + by) % entry.n_latents) + entry.n_latents) % entry.n_latents;
    props.go(
      { ...route, latent: Number.isFinite(to) ? to : 0, axes: [0, 1, 2], surface: null, pins: [], versus: null },
      true,
    );
  };
  useKeys({ j: () => turnPage(1), k: () => turnPage(-1) });
  useEffect(() => {
    document.title = `Latent ${route.latent} · ${entry.name} · Quadric`;
  }, [route.latent, entry.name]);
  // Prefetch the next page: its data is small and likely needed.
  useEffect(() => {
    if (latent.value && route.latent + 1 < entry.n_latents) site.latent(entry, route.latent + 1).catch(() => {});
  }, [latent.value]);
  if (error)
    return (
      <ProblemPage error={error}>
        <p>
          <a href={formatRoute({ ...props.route, latent: 0 })}>Latent 0</a> ·{" "}
          <a href={`#/${entry.name}`}>Map of all latents</a>
        </p>
      </ProblemPage>
    );
  // Where nothing was searched for clusters or patterns, null is their value.
  const isLoading = (entry.clusters && !clusters.value) || (entry.patterns && !patterns.value);
  if (!index.value || !text.value || !latent.value || isLoading) return <Skeleton what={`latent ${route.latent}`} />;
  const loaded = { index: index.value, text: text.value, latent: latent.value, clusters: clusters.value, patterns: patterns.value };
  return <Loaded {...props} {...loaded} turnPage={turnPage} />;
}

interface LoadedProps extends LatentPageProps {
  index: Index;
  text: SiteText;
  latent: Latent;
  clusters: Record<string, LatentClusters> | null;
  patterns: Record<string, LatentPattern[]> | null;
  turnPage: (by: number) => void;
}

function Loaded(props: LoadedProps) {
  const page = usePage(props);
  const { latent, index, entry, captured, shown, text, pins } = page;
  return (
    <main class="latent-page">
      <Title
        {...{ entry, index, latent, captured }}
        patterns={page.patterns}
        unit={text.unit}
        turnPage={props.turnPage}
      />
      <div class="stage">
        <PicturePanel {...page} />
        <SidePanels {...page} />
      </div>
      {page.own && (
        <div class="live-panels">
          <TextPanel
            latent={latent}
            text={page.route.text}
            asked={page.own.asked}
            onText={(own) => page.change({ text: own })}
          />
          <SteerPanel key={latent.latent} entry={entry} latent={latent} text={page.route.text} />
        </div>
      )}
      <Pins site={page.site} text={text} latent={latent} pins={pins} onPin={page.pin} onHover={page.setHovered} />
      <DetailPanels {...page} />
      <PointTable latent={latent} text={text} shown={shown} origin={page.origin} />
    </main>
  );
}

/** What the panels of a latent share, and the keys that change it. */
function usePage({ site, entry, route, theme, go, index, text, latent, clusters, patterns }: LoadedProps): Page {
  const search = clusters?.[latent.latent] ?? null;
  const found = { search, clusters: search?.clusters ?? [], others: clusters };
  const camera = useMemo(() => new Camera(), []);
  const [hovered, setHovered] = useState<number | null>(null);
  const [neighbour, setNeighbour] = useState<number | null>(null);
  const [cluster, setCluster] = useState<number | null>(null);
  const { versus } = route;
  const other = useLoaded(versus === null ? "" : `${entry.name} ${versus}`, () =>
    versus === null ? null : site.latent(entry, versus),
  );
  const shared = useShared(site, entry, latent, neighbour);
  const shown = useMemo(() => shownAxes(latent, route.axes, route.control), [latent, route.axes.join(), route.control]);
  const pins = route.pins.filter((pin) => pin < latent.values.length);
  const change = (part: Partial<LatentRoute>) => go({ ...route, ...part }, false);
  const pin = (point: number) =>
    change({ pins: pins.includes(point) ? pins.filter((each) => each !== point) : [...pins, point].slice(-12) });
  const keepCamera = useKeptCamera(camera, route, go, latent);
  usePictureKeys(camera, keepCamera, {
    s: () => change({ surface: route.surface === null ? startingLevel(latent) : null }),
    r: () => change({ control: route.control === "random" ? null : "random" }),
    l: () => change({ control: route.control === "linear" ? null : "linear" }),
    a: () => change({ eigenaxes: !route.eigenaxes }),
    c: () => change({ colour: nextColour(route.colour, found.clusters.length > 0) }),
    Escape: () => change({ pins: [], versus: null }),
  });
  const label = labelOf(index, latent.latent);
  const own = useOwnText(entry, route, latent);
  const shares = {
    site,
    entry,
    route,
    theme,
    index,
    text,
    latent,
    camera,
    shown,
    pins,
    hovered,
    neighbour,
    found,
    patterns: patterns?.[latent.latent] ?? null,
    cluster,
    shared,
    other,
    own,
    label,
    origin: originOf(entry, text.unit),
  };
  const acts = { change, pin, setHovered, setNeighbour, setCluster, keepCamera };
  return { ...shares, captured: capturedBy(latent, shown), ...acts };
}

interface TitleProps {
  entry: DictionaryEntry;
  unit: Unit;
  index: Index;
  latent: Latent;
  captured: number;
  patterns: LatentPattern[] | null;
  turnPage: (by: number) => void;
}

function Title({ entry, unit, index, latent, captured, patterns, turnPage }: TitleProps) {
  const shape = SHAPES[index.columns.shape?.[latent.latent] ?? 0];
  const label = index.labels[latent.latent];
  return (
    <header class="title">
      <div class="name">
        <p class="crumb">
          <a href={`#/${encodeURIComponent(entry.name)}`} title={entry.name}>
            {entry.name}
          </a>{" "}
          · latent {latent.latent} ·{" "}
          <span class="shape">{shape}</span> <CurvatureChip {...{ latent, unit, shape }} />{" "}
          <PatternChips {...{ entry, patterns }} />
        </p>
        <h1 title={labelOf(index, latent.latent)}>
          <bdi>{shortened(labelOf(index, latent.latent), 110)}</bdi>
        </h1>
        <p class="quiet">
          {label?.written && (
            <>
              <bdi>{visible(label.text)}</bdi> ·{" "}
            </>
          )}
          <LabelQuality entry={entry} label={label} />
        </p>
      </div>
      <dl class="statistics">
        {statisticsOf(entry.is_linear).filter(({ key }) => key !== "measured_curvature").map((statistic) => {
          const value = statistic.key === "captured" ? captured : index.columns[statistic.key]![latent.latent];
          return (
            <div key={statistic.key} title={statistic.explain(unit)}>
              <dt>{statistic.name}</dt>
              <dd>{statistic.format(value)}</dd>
            </div>
          );
        })}
      </dl>
      <nav class="turn" aria-label="Latents">
        <button type="button" onClick={() => turnPage(-1)} aria-label="Previous latent (key k)">
          ←
        </button>
        <button type="button" onClick={() => turnPage(1)} aria-label="Next latent (key j)">
          →
        </button>
      </nav>
    </header>
  );
}

/** Whether the latent is a direction or curved, and by how much; nothing where z does not vary. */
function CurvatureChip({ latent, unit, shape }: { latent: Latent; unit: Unit; shape: string }) {
  if (shape === "empty" || shape === "constant") return null;
  const name = curvatureName(latent);
  return (
    <span class={`chip ${name.split(" ")[0]}`} title={explainCurvature(latent, unit)}>
      {name}
    </span>
  );
}

/** The reader's text as stars; null in a static site. */
function useOwnText(entry: DictionaryEntry, route: LatentRoute, latent: Latent): OwnText | null {
  const live = isLive();
  const question =
    live && route.text.trim()
      ? { dictionary: entry.name, text: route.text, latent: latent.latent, axes: Math.max(1, latent.coordinates.length) }
      : null;
  const asked = useAnswer("stars", question);
  const found = question ? asked.answer : null;
  const stars = useMemo(() => {
    if (!found) return undefined;
    return (frame: Frame) => {
      const placed = starsIn(latent, found, route.axes, route.control, frame);
      const named = namedStars(placed);
      return placed.map(({ at, word }, i) => ({ at, word: shortened(word, 24), named: named.has(i) }));
    };
  }, [found, latent, route.axes.join(), route.control]);
  return live ? { asked, stars } : null;
}

/** Points of this latent that are also points of another one. */
function useShared(site: Site, entry: DictionaryEntry, latent: Latent, other: number | null): number[] {
  const loaded = useLoaded(other === null ? "" : `${entry.name} ${other}`, () =>
    other === null ? null : site.latent(entry, other),
  );
  return useMemo(() => {
    if (!loaded.value) return [];
    const places = new Set(loaded.value.places);
    return Array.from(latent.places, (place, i) => (places.has(place) ? i : -1)).filter((i) => i >= 0);
  }, [loaded.value, latent]);
}

function usePictureKeys(camera: Camera, keep: () => void, more: Record<string, () => void>): void {
  const kept = keeping(keep);
  const step = Math.PI / 24;
  useKeys({
    ArrowLeft: kept(() => camera.turn(-step, 0)),
    ArrowRight: kept(() => camera.turn(step, 0)),
    ArrowUp: kept(() => camera.turn(0, -step)),
    ArrowDown: kept(() => camera.turn(0, step)),
    ...zoomKeys(camera, keep),
    x: kept(() => camera.look(VIEWS.x)),
    y: kept(() => camera.look(VIEWS.y)),
    z: kept(() => camera.look(VIEWS.z)),
    ...more,
  });
}

function nextColour(colour: LatentRoute["colour"], hasClusters: boolean): LatentRoute["colour"] {
  const all = COLOURINGS.filter((name) => name !== "cluster" || hasClusters);
  return all[(all.indexOf(colour) + 1) % all.length];
}
