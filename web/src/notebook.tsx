// One latent for a notebook: a page that contains everything it needs.
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Camera } from "./scene/camera.ts";
import type { Latent, Unit } from "./data/site.ts";
import { capturedBy, shownAxes } from "./scene/geometry.ts";
import { useKeys, useMedia, useTheme } from "./ui/hooks.ts";
import { LATENT } from "./ui/route.ts";
import type { LatentRoute } from "./ui/route.ts";
import { Scene } from "./scene/latent-scene.tsx";
import { fromRest } from "./ui/format.ts";
import { Markers } from "./latent/view.tsx";
import { Spectrum } from "./latent/spectrum.tsx";
import { aboveRest, startingLevel } from "./scene/activation.ts";
import { ControlNote, Controls, SurfaceControl } from "./latent/toolbar.tsx";
import { curvatureName, explainCurvature, explainWeights } from "./latent/curvature.ts";
import { EIGENVECTOR, NO_AXIS, NOTHING } from "./data/schema.ts";
import { visible } from "./data/vocabulary.ts";
import { placeTooltip } from "./ui/tooltip.ts";

/** What quadric/viewer/notebook.py puts into the page. */
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
  /** What coordinates are measured from; the origin where the mean is unknown. */
  origin?: string;
  unit?: Unit;
  is_linear?: boolean;
  /** As in a site; left out where a form is read about the origin, and its axes are its eigenvectors. */
  axis_quadratic?: number[];
  axis_linear?: number[];
  axis_kind?: number[];
  constant?: number;
  rest?: number;
  curvature?: number;
  measured_curvature?: number;
  linear?: number[];
}

function latentOf(data: NotebookData): Latent {
  const axes = data.coordinates.map((_, axis) => axis);
  const isAxis = (axis: number) => axis < data.eigenvalues.length;
  return {
    latent: data.latent,
    isLinear: data.is_linear ?? false,
    eigenvalues: Float32Array.from(data.eigenvalues),
    rank: data.rank,
    totalWeight: data.total_weight,
    axisQuadratic: Float32Array.from(data.axis_quadratic ?? axes.map((axis) => data.eigenvalues[axis] ?? 0)),
    axisLinear: Float32Array.from(data.axis_linear ?? axes.map(() => 0)),
    axisKind: Int32Array.from(data.axis_kind ?? axes.map((axis) => (isAxis(axis) ? EIGENVECTOR : NO_AXIS))),
    constant: data.constant ?? 0,
    rest: data.rest ?? 0,
    curvature: data.curvature ?? 1,
    measuredCurvature: data.measured_curvature ?? 1,
    places: Uint32Array.from(data.tokens.keys()),
    tokens: Uint32Array.from(data.tokens),
    values: Float32Array.from(data.values),
    coordinates: data.coordinates.map((axis) => Float32Array.from(axis)),
    control: data.control.map((axis) => Float32Array.from(axis)),
    linear: Float32Array.from(data.linear ?? []),
    clusters: new Int32Array(data.values.length).fill(NOTHING),
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
        <Controls control={route.control} without={latent.linear.length ? null : "linear"} onChange={change} />
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
      <span class="value">z = {fromRest(aboveRest(latent, hover.point))}</span>
    </div>
  );
}

function Notebook({ data }: { data: NotebookData }) {
  const latent = useMemo(() => latentOf(data), []);
  const camera = useMemo(() => new Camera(), []);
  const { theme } = useTheme();
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const [hover, setHover] = useState<Hover | null>(null);
  const starting = latent.values.length ? startingLevel(latent) : (data.rest ?? 0) + data.reach / 2;
  const [route, setRoute] = useState<LatentRoute>({
    ...LATENT,
    latent: data.latent,
    surface: latent.values.length ? null : starting,
  });
  const change = (part: Partial<LatentRoute>) => setRoute({ ...route, ...part });
  const shown = shownAxes(latent, route.axes, route.control);
  const captured = capturedBy(latent, shown);
  const text = (token: number) => visible(data.texts[token] ?? "");
  const unit = data.unit ?? "row";
  // Without evidence, Python gives the figure of the weights for both.
  const measured = data.measured_curvature !== data.curvature;
  const origin = data.origin ?? "the origin";
  const toggle = (control: "random" | "linear") => change({ control: route.control === control ? null : control });
  useKeys({
    "0": () => camera.reset(),
    ...(latent.values.length ? { r: () => toggle("random") } : {}),
    ...(latent.linear.length ? { l: () => toggle("linear") } : {}),
  });
  return (
    <main class="notebook">
      <h1>
        <bdi>{data.title}</bdi>{" "}
        {data.measured_curvature !== undefined && (
          <span class="chip" title={measured ? explainCurvature(latent, unit) : explainWeights(latent)}>
            {curvatureName(latent)}
          </span>
        )}
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
          origin={origin}
          animate={!still}
          tokenText={text}
          onHover={(point, x, y) => setHover(point === null ? null : { point, x, y })}
          onPin={() => {}}
          onCamera={() => {}}
        />
        {hover && <Hovered {...{ latent, hover }} text={text(latent.tokens[hover.point])} />}
      </div>
      <div class="legend">
        <Markers {...{ latent, origin }} axes={route.axes} control={route.control} eigenaxes={route.eigenaxes} />
      </div>
      <ControlNote control={route.control} unit={unit} isLinear={latent.isLinear} />
      <SurfaceControl {...{ route, latent, shown, captured }} reach={data.reach} onChange={change} />
      <Spectrum
        {...{ latent, captured }}
        axes={route.axes}
        control={route.control !== null}
        onAxes={(axes) => change({ axes, control: null })}
      />
      <p class="quiet">{data.note}</p>
    </main>
  );
}

const data = JSON.parse(document.getElementById("data")!.textContent!) as NotebookData;
render(<Notebook data={data} />, document.getElementById("app")!);
