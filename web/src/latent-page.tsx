import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Camera, VIEWS } from "./camera.ts";
import type { Theme } from "./colours.ts";
import { css, PALETTES } from "./colours.ts";
import { STATISTICS } from "./columns.ts";
import { Comparison } from "./comparison.tsx";
import { Contexts, Pins } from "./contexts.tsx";
import type { Index, Latent, Site, SiteText } from "./data.ts";
import { picture, pointsAsCsv, save } from "./exports.ts";
import { Firing } from "./firing.tsx";
import { capturedBy, shownAxes } from "./geometry.ts";
import { useKeys, useLoaded } from "./hooks.ts";
import { labelOf } from "./labels.tsx";
import { LatentView } from "./latent-view.tsx";
import { Neighbours } from "./neighbours.tsx";
import { PointTable } from "./point-table.tsx";
import { formatRoute } from "./route.ts";
import type { LatentRoute } from "./route.ts";
import type { Scatter } from "./scatter.ts";
import { SHAPES } from "./schema.ts";
import type { DictionaryEntry } from "./schema.ts";
import { Spectrum } from "./spectrum.tsx";
import { ProblemPage, Skeleton } from "./states.tsx";
import { snippet } from "./take-away.ts";
import { visible } from "./tokens.ts";
import { startingLevel, SurfaceControl, TakeAway, Toolbar } from "./toolbar.tsx";

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
  const error = latent.error ?? index.error ?? text.error;
  const turnPage = (by: number) => {
    const to = (((route.latent + by) % entry.n_latents) + entry.n_latents) % entry.n_latents;
    props.go({ ...route, latent: Number.isFinite(to) ? to : 0, axes: [0, 1, 2], surface: null, pins: [], versus: null }, true);
  };
  useKeys({ j: () => turnPage(1), k: () => turnPage(-1) });
  useEffect(() => {
    document.title = `Latent ${route.latent} · ${entry.name} · Quadric`;
  }, [route.latent, entry.name]);
  // The next page's data is small and likely wanted.
  useEffect(() => {
    if (latent.value && route.latent + 1 < entry.n_latents) site.latent(entry, route.latent + 1).catch(() => {});
  }, [latent.value]);
  if (error)
    return (
      <ProblemPage error={error}>
        <p>
          <a href={formatRoute({ ...props.route, latent: 0 })}>Latent 0</a> · <a href={`#/${entry.name}`}>Map of all latents</a>
        </p>
      </ProblemPage>
    );
  if (!index.value || !text.value || !latent.value) return <Skeleton what={`latent ${route.latent}`} />;
  return <Loaded {...props} index={index.value} text={text.value} latent={latent.value} turnPage={turnPage} />;
}

interface LoadedProps extends LatentPageProps {
  index: Index;
  text: SiteText;
  latent: Latent;
  turnPage: (by: number) => void;
}

function Loaded({ site, entry, route, theme, go, index, text, latent, turnPage }: LoadedProps) {
  const camera = useMemo(() => new Camera(), []);
  const scatter = useRef<Scatter | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [neighbour, setNeighbour] = useState<number | null>(null);
  const { versus } = route;
  const other = useLoaded(versus === null ? "" : `${entry.name} ${versus}`, () => (versus === null ? null : site.latent(entry, versus)));
  const shared = useShared(site, entry, latent, neighbour);
  const shown = useMemo(() => shownAxes(latent, route.axes, route.control), [latent, route.axes.join(), route.control]);
  const captured = capturedBy(latent, shown);
  const pins = route.pins.filter((pin) => pin < latent.values.length);
  const change = (part: Partial<LatentRoute>) => go({ ...route, ...part }, false);
  const pin = (point: number) =>
    change({ pins: pins.includes(point) ? pins.filter((each) => each !== point) : [...pins, point].slice(-12) });
  const keepCamera = useKeptCamera(camera, route, go);
  useEffect(() => {
    if (route.camera || latent.rank >= 3) camera.restore(route.camera);
    else camera.restore(null);
  }, [route.camera?.join(), latent]);
  usePictureKeys(camera, keepCamera, {
    s: () => change({ surface: route.surface === null ? startingLevel(latent) : null }),
    r: () => change({ control: !route.control }),
    a: () => change({ eigenaxes: !route.eigenaxes }),
    c: () => change({ colour: nextColour(route.colour) }),
    Escape: () => change({ pins: [], versus: null }),
  });
  const label = labelOf(index, latent.latent);
  const takePicture = async () => {
    if (!scatter.current) return;
    const overlay = scatter.current.canvas.nextElementSibling as HTMLCanvasElement;
    const caption = [`${entry.name} · latent ${latent.latent}: ${label}`, samplingText(entry, latent)];
    const background = theme === "dark" ? "#121217" : "#fdfcfa";
    save(`latent-${latent.latent}.png`, await picture(scatter.current, overlay, background, css(PALETTES[theme].ink), caption));
  };
  const takeTable = () =>
    save(`latent-${latent.latent}.csv`, new Blob([pointsAsCsv(latent, text, shown)], { type: "text/csv;charset=utf-8" }));
  const tools = { route, latent, shown, captured, onChange: change };
  return (
    <main class="latent-page">
      <Title {...{ entry, index, latent, captured, turnPage }} custom={shown.some((axis, i) => axis.eigenvector !== i)} />
      <div class="stage">
        <section class={`panel picture ${route.versus === null ? "" : "comparing"}`} aria-label="Picture">
          <Toolbar {...tools} />
          <div class="views">
            <div class="comparison">
            {versus !== null && <p class="comparison-title"><b>{latent.latent} <bdi>{label}</bdi></b></p>}
            <LatentView
              {...{ site, text, latent, camera, theme, pins }}
              axes={route.axes}
              control={route.control}
              eigenaxes={route.eigenaxes}
              colour={route.colour}
              surface={route.surface}
              label={`3D scatter of ${latent.values.length} tokens for latent ${latent.latent}. Arrow keys rotate, plus and minus zoom; the same points are in the table below.`}
              marked={neighbour !== null ? shared : hovered !== null ? [hovered] : []}
              alone={neighbour !== null && shared.length > 0}
              onHover={setHovered}
              onPin={pin}
              onCamera={keepCamera}
              onScatter={(each) => (scatter.current = each)}
            />
            </div>
            {route.versus !== null && (
              <Comparison
                {...{ site, text, theme, camera, latent, index, hovered, route, other }}
                onHover={setHovered}
                onCamera={keepCamera}
                onClose={() => change({ versus: null })}
              />
            )}
          </div>
          {route.control && (
            <p class="caution">
              Random control: the same tokens on three random directions. Structure that survives here is not this latent's.
            </p>
          )}
          <SurfaceControl {...tools} />
          <footer>
            <p class="badge">{samplingText(entry, latent)}</p>
            <TakeAway onPicture={takePicture} onTable={takeTable} snippet={snippet(entry, latent.latent)} />
          </footer>
        </section>
        <aside class="side">
          <section class="panel" aria-label="Spectrum">
            <h2>Spectrum</h2>
            <Spectrum latent={latent} axes={route.axes} captured={captured} onAxes={(axes) => change({ axes })} />
          </section>
          <section class="panel" aria-label="Contexts">
            <h2>Strongest contexts</h2>
            <Contexts latent={latent} text={text} hovered={hovered} pins={pins} onHover={setHovered} onPin={pin} />
          </section>
          {other.value && (
            <section class="panel" aria-label={`Contexts of latent ${versus}`}>
              <h2>Strongest contexts of {versus}</h2>
              <Contexts latent={other.value} text={text} hovered={null} pins={[]} onHover={() => {}} />
            </section>
          )}
        </aside>
      </div>
      <Pins site={site} text={text} latent={latent} pins={pins} onPin={pin} onHover={setHovered} />
      <div class="details">
        <section class="panel" aria-label="Firing">
          <h2>Firing</h2>
          <Firing latent={latent} entry={entry} index={index} text={text} />
        </section>
        <section class="panel" aria-label="Neighbours">
          <h2>Neighbours</h2>
          <p class="quiet neighbour-note">
            {neighbour === null
              ? "By overlap of the leading eigenspaces. Point at one to see the tokens that both keep."
              : `${shared.length} of these points are also points of latent ${neighbour}.`}
          </p>
          <Neighbours
            latent={latent}
            index={index}
            versus={route.versus}
            address={(other) => formatRoute({ ...route, latent: other, axes: [0, 1, 2], pins: [], versus: null, surface: null })}
            onCompare={(other) => change({ versus: route.versus === other ? null : other })}
            onHover={setNeighbour}
          />
        </section>
      </div>
      <PointTable latent={latent} text={text} shown={shown} />
    </main>
  );
}

interface TitleProps {
  entry: DictionaryEntry;
  index: Index;
  latent: Latent;
  captured: number;
  custom: boolean;
  turnPage: (by: number) => void;
}

function Title({ entry, index, latent, captured, custom, turnPage }: TitleProps) {
  const shape = SHAPES[index.columns.shape?.[latent.latent] ?? 0];
  const label = index.labels[latent.latent];
  return (
    <header class="title">
      <div class="name">
        <p class="crumb">
          <a href={`#/${encodeURIComponent(entry.name)}`}>{entry.name}</a> · latent {latent.latent} · <span class="shape">{shape}</span>
        </p>
        <h1><bdi>{labelOf(index, latent.latent)}</bdi></h1>
        <p class="quiet">
          {label?.written && <><bdi>{visible(label.text)}</bdi> · </>}
          <span class="unevaluated" title={label?.written ? `Written by ${entry.labels.written}` : entry.labels.offline}>
            label unevaluated
          </span>
        </p>
      </div>
      <dl class="statistics">
        {STATISTICS.map((statistic) => {
          const recomputed = statistic.key === "captured" && custom;
          const value = recomputed ? captured : index.columns[statistic.key]![latent.latent];
          return (
            <div key={statistic.key} title={statistic.explain}>
              <dt>{statistic.name}</dt>
              <dd>{statistic.format(value)}</dd>
            </div>
          );
        })}
      </dl>
      <nav class="turn" aria-label="Latents">
        <button type="button" onClick={() => turnPage(-1)} aria-label="Previous latent (key k)">←</button>
        <button type="button" onClick={() => turnPage(1)} aria-label="Next latent (key j)">→</button>
      </nav>
    </header>
  );
}

/** How the points were drawn, so that nobody takes them for a fair sample. */
export function samplingText(entry: DictionaryEntry, latent: Latent): string {
  const { sampling } = entry;
  const count = (number: number) => number.toLocaleString("en");
  const exponent = String(sampling.weight_exponent).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).replace(".", "·");
  return `${count(latent.values.length)} of ${count(sampling.n_tokens)} tokens, drawn with weight (|z| + ${sampling.epsilon})${exponent}: strong activations are over-represented. Labels are unevaluated.`;
}

/** Points of this latent that are points of another one too. */
function useShared(site: Site, entry: DictionaryEntry, latent: Latent, other: number | null): number[] {
  const loaded = useLoaded(other === null ? "" : `${entry.name} ${other}`, () => (other === null ? null : site.latent(entry, other)));
  return useMemo(() => {
    if (!loaded.value) return [];
    const places = new Set(loaded.value.places);
    return Array.from(latent.places, (place, i) => (places.has(place) ? i : -1)).filter((i) => i >= 0);
  }, [loaded.value, latent]);
}

/** Puts the camera into the address once it rests. */
function useKeptCamera(camera: Camera, route: LatentRoute, go: LatentPageProps["go"]): () => void {
  const timer = useRef(0);
  const latest = useRef(route);
  latest.current = route;
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => go({ ...latest.current, camera: camera.numbers() }, false), 250);
  };
}

function usePictureKeys(camera: Camera, keep: () => void, more: Record<string, () => void>): void {
  const kept = (action: () => void) => () => {
    action();
    keep();
  };
  const step = Math.PI / 24;
  useKeys({
    ArrowLeft: kept(() => camera.turn(-step, 0)),
    ArrowRight: kept(() => camera.turn(step, 0)),
    ArrowUp: kept(() => camera.turn(0, -step)),
    ArrowDown: kept(() => camera.turn(0, step)),
    "+": kept(() => camera.zoomBy(1.2)),
    "=": kept(() => camera.zoomBy(1.2)),
    "-": kept(() => camera.zoomBy(1 / 1.2)),
    "0": kept(() => camera.reset()),
    x: kept(() => camera.look(VIEWS.x)),
    y: kept(() => camera.look(VIEWS.y)),
    z: kept(() => camera.look(VIEWS.z)),
    ...more,
  });
}

function nextColour(colour: LatentRoute["colour"]): LatentRoute["colour"] {
  const all = ["activation", "sign", "token", "position"] as const;
  return all[(all.indexOf(colour) + 1) % all.length];
}
