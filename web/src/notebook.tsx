// One latent for a notebook: a page that contains everything it needs.
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Camera } from "./scene/camera.ts";
import type { Latent } from "./data/site.ts";
import { capturedBy, shownAxes } from "./scene/geometry.ts";
import { useKeys, useMedia, useTheme } from "./ui/hooks.ts";
import { LATENT } from "./ui/route.ts";
import type { LatentRoute } from "./ui/route.ts";
import { Scene } from "./scene/latent-scene.tsx";
import { signed } from "./ui/format.ts";
import { Spectrum } from "./latent/spectrum.tsx";
import { startingLevel, SurfaceControl } from "./latent/toolbar.tsx";
import { visible } from "./data/vocabulary.ts";
import { placeTooltip } from "./ui/tooltip.ts";

/** What quadric/site/notebook.py puts into the page. */
export interface NotebookData {
  title: string;
  note: string;
  latent: number;
  eigenvalues: number[];
  rank: number;
  total_weight: number;
  values: number[];
  /** One list per axis. */
  coordinates: number[][];
  control: number[][];
  /** Index of each point's text in `texts`. */
  tokens: number[];
  texts: string[];
  /** Largest |z| to offer as a level when there are no points. */
  reach: number;
}

function latentOf(data: NotebookData): Latent {
  return {
    latent: data.latent,
    eigenvalues: Float32Array.from(data.eigenvalues),
    rank: data.rank,
    totalWeight: data.total_weight,
    places: Uint32Array.from(data.tokens.keys()),
    tokens: Uint32Array.from(data.tokens),
    values: Float32Array.from(data.values),
    coordinates: data.coordinates.map((axis) => Float32Array.from(axis)),
    control: data.control.map((axis) => Float32Array.from(axis)),
    contexts: [[], []],
    neighbours: [],
    quantiles: new Float32Array(),
    lifts: [[], []],
  };
}

interface Hover {
  point: number;
  x: number;
  y: number;
}

interface TogglesProps {
  route: LatentRoute;
  latent: Latent;
  /** The level at which a surface appears. */
  starting: number;
  change: (part: Partial<LatentRoute>) => void;
}

function Toggles({ route, latent, starting, change }: TogglesProps) {
  return (
    <div class="toolbar">
      <button
        type="button"
        aria-pressed={route.surface !== null}
        onClick={() => change({ surface: route.surface === null ? starting : null })}
      >
        Surface
      </button>
      <button type="button" aria-pressed={route.eigenaxes} onClick={() => change({ eigenaxes: !route.eigenaxes })}>
        Axes
      </button>
      {latent.values.length > 0 && (
        <button type="button" aria-pressed={route.control} onClick={() => change({ control: !route.control })}>
          Random control
        </button>
      )}
    </div>
  );
}

function Hovered({ latent, hover, text }: { latent: Latent; hover: Hover; text: string }) {
  return (
    <div class={`tooltip ${hover.y < 90 ? "below" : ""}`} ref={(element) => placeTooltip(element, hover.x, hover.y)}>
      <b>
        <bdi>{text}</bdi>
      </b>{" "}
      <span class="value">z = {signed(latent.values[hover.point], 3)}</span>
    </div>
  );
}

function Notebook({ data }: { data: NotebookData }) {
  const latent = useMemo(() => latentOf(data), []);
  const camera = useMemo(() => new Camera(), []);
  const { theme } = useTheme();
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const [hover, setHover] = useState<Hover | null>(null);
  const starting = latent.values.length ? startingLevel(latent) : data.reach / 2;
  const [route, setRoute] = useState<LatentRoute>({
    ...LATENT,
    latent: data.latent,
    surface: latent.values.length ? null : starting,
  });
  const change = (part: Partial<LatentRoute>) => setRoute({ ...route, ...part });
  const shown = shownAxes(latent, route.axes, route.control);
  const captured = capturedBy(latent, shown);
  const text = (token: number) => visible(data.texts[token] ?? "");
  useKeys({ "0": () => camera.reset() });
  return (
    <main class="notebook">
      <h1>
        <bdi>{data.title}</bdi>
      </h1>
      <Toggles {...{ route, latent, starting, change }} />
      <div class="view">
        <Scene
          {...{ latent, camera, theme }}
          axes={route.axes}
          control={route.control}
          eigenaxes={route.eigenaxes}
          colour="activation"
          positions={null}
          surface={route.surface}
          marked={hover ? [hover.point] : []}
          alone={false}
          pins={[]}
          label={data.title}
          animate={!still}
          tokenText={text}
          onHover={(point, x, y) => setHover(point === null ? null : { point, x, y })}
          onPin={() => {}}
          onCamera={() => {}}
        />
        {hover && <Hovered {...{ latent, hover }} text={text(latent.tokens[hover.point])} />}
      </div>
      <SurfaceControl {...{ route, latent, shown, captured }} reach={data.reach} onChange={change} />
      <Spectrum latent={latent} axes={route.axes} captured={captured} onAxes={(axes) => change({ axes })} />
      <p class="quiet">{data.note}</p>
    </main>
  );
}

const data = JSON.parse(document.getElementById("data")!.textContent!) as NotebookData;
render(<Notebook data={data} />, document.getElementById("app")!);
