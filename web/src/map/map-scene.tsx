// The map of all latents: a flat scatter with ticks, hover, click and lasso.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Camera } from "../scene/camera.ts";
import { alongSequence, css, PALETTES } from "../scene/colours.ts";
import type { Theme } from "../scene/colours.ts";
import { drawnRange, robustScale, statistic, unitScale } from "../data/statistics.ts";
import type { Index } from "../data/site.ts";
import { useMedia, useSize } from "../ui/hooks.ts";
import { labelOf } from "../ui/labels.tsx";
import { isEmpty, thinned, ticks } from "./selection.ts";
import type { Layout } from "./selection.ts";
import type { MapRoute } from "../ui/route.ts";
import { NoWebGl, Scatter } from "../scene/scatter.ts";
import { placeTooltip } from "../ui/tooltip.ts";

interface Props {
  index: Index;
  route: MapRoute;
  layout: Layout;
  passes: Uint8Array;
  /** The latent that each copies, or itself. */
  sources: Int32Array;
  /** Latents folded under the one that they copy. */
  folded: Uint8Array;
  theme: Theme;
  hovered: number | null;
  selecting: boolean;
  camera: Camera;
  onCamera: () => void;
  onHover: (latent: number | null) => void;
  onOpen: (latent: number) => void;
  onLasso: (corners: number[] | null) => void;
}

const MARGIN = 0.94;

/** A flat scatter that lives as long as its canvas and glides when the layout changes. */
function useMapScatter(props: Props, size: { width: number; height: number }) {
  const { layout, route } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scatter = useRef<Scatter | null>(null);
  const first = useRef(true);
  const [failure, setFailure] = useState(false);
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const stretch = stretchOf(size);
  useEffect(() => {
    try {
      scatter.current = new Scatter(canvas.current!, props.camera, true);
    } catch (problem) {
      if (!(problem instanceof NoWebGl)) throw problem;
      setFailure(true);
    }
    return () => scatter.current?.close();
  }, []);
  useEffect(() => {
    if (!scatter.current || !size.width) return;
    const positions = new Float32Array(3 * layout.x.length);
    layout.x.forEach((x, i) => positions.set([x * stretch[0], layout.y[i] * stretch[1], 0], 3 * i));
    scatter.current.show({ positions, ...looks(props) }, first.current || still ? 0 : 700);
    first.current = false;
  }, [layout, props.passes, props.folded, props.theme, route.size, route.colour, size.width, size.height]);
  return { canvas, scatter, failure, stretch };
}

export function MapScene(props: Props) {
  const { index, theme, hovered } = props;
  const [box, size] = useSize<HTMLDivElement>();
  const overlay = useRef<HTMLCanvasElement>(null);
  const { canvas, scatter, failure, stretch } = useMapScatter(props, size);
  const lasso = useLasso(props, scatter, stretch);
  useEffect(() => {
    if (!scatter.current) return;
    scatter.current.ink = PALETTES[theme].ink;
    scatter.current.mark(hovered === null ? [] : [hovered]);
    scatter.current.onDraw = () =>
      overlay.current && drawFrame(overlay.current, scatter.current!, props, stretch, lasso.drawn.current);
    scatter.current.redraw();
  });

  if (failure)
    return (
      <div class="scene scene-off map-scene" role="note">
        <h3>No map here</h3>
        <p>This browser offers no WebGL2. The list below has every latent, with the same filters and order.</p>
      </div>
    );
  const at = hovered !== null && scatter.current ? scatter.current.placeOf(hovered) : null;
  return (
    <div class="map-scene" ref={box}>
      <div class={`scene ${props.selecting ? "selecting" : ""}`} {...lasso.pointer}>
        <canvas
          ref={canvas}
          class="scene-points"
          role="img"
          aria-label={`Map of ${index.labels.length} latents; the list below has the same ones`}
        />
        <canvas ref={overlay} class="scene-overlay" aria-hidden="true" />
      </div>
      {at && hovered !== null && <MapTooltip {...props} latent={hovered} x={at.x} y={at.y} />}
    </div>
  );
}

function MapTooltip({ index, route, sources, folded, latent, x, y }: Props & { latent: number; x: number; y: number }) {
  const copies = sources.filter((source, i) => source === latent && folded[i]).length;
  const shown = [...new Set([route.x, route.y, route.size, route.colour])].map(statistic);
  return (
    <div class={`tooltip ${y < 130 ? "below" : ""}`} ref={(element) => placeTooltip(element, x, y)}>
      <header>
        <b>{latent}</b> <bdi>{labelOf(index, latent)}</bdi>
        {copies > 0 && <span class="quiet">and {copies === 1 ? "a copy" : `${copies} copies`}</span>}
      </header>
      <dl>
        {shown.map(({ key, short, format }) => (
          <div key={key}>
            <dt>{short}</dt>
            <dd>{format(index.columns[key]![latent])}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** The map fills its rectangle: the longer side has more than one unit on each side of the middle. */
function stretchOf({ width, height }: { width: number; height: number }): [number, number] {
  const side = Math.max(1, Math.min(width, height));
  return [(width / side) * 0.93, (height / side) * 0.9];
}

/** Where on the picture an event is, in pixels, and how many of them make a unit. */
function placeOfEvent(event: MouseEvent) {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const unit = (Math.min(box.width, box.height) / 2) * MARGIN;
  return { x, y, unit, right: (x - box.width / 2) / unit, up: (box.height / 2 - y) / unit };
}

/** Drag moves, shift-drag or the lasso selects, the wheel zooms, a click opens. */
function useLasso(props: Props, scatter: { current: Scatter | null }, stretch: [number, number]) {
  const drawn = useRef<number[] | null>(null);
  const drag = useRef<{ x: number; y: number; moved: number } | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const onMap = ({ right, up }: ReturnType<typeof placeOfEvent>): [number, number] => {
    const { zoom, shift } = latest.current.camera;
    return [(right - shift[0]) / zoom / stretch[0], (up - shift[1]) / zoom / stretch[1]];
  };
  const latentAt = ({ x, y }: ReturnType<typeof placeOfEvent>) => {
    const latent = scatter.current?.pick(x, y) ?? -1;
    return latent < 0 ? null : latent;
  };
  const down = (event: PointerEvent) => {
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    const at = placeOfEvent(event);
    drag.current = { x: at.x, y: at.y, moved: 0 };
    if (latest.current.selecting || event.shiftKey) drawn.current = onMap(at);
  };
  const move = (event: PointerEvent) => {
    const at = placeOfEvent(event);
    if (!drag.current) return latest.current.onHover(latentAt(at));
    const [dx, dy] = [at.x - drag.current.x, at.y - drag.current.y];
    drag.current = { x: at.x, y: at.y, moved: drag.current.moved + Math.hypot(dx, dy) };
    if (drawn.current) {
      drawn.current.push(...onMap(at));
      scatter.current?.redraw();
    } else latest.current.camera.shiftBy(dx / at.unit, -dy / at.unit);
  };
  const up = (event: PointerEvent) => {
    const { moved } = drag.current ?? { moved: 0 };
    if (drawn.current) {
      latest.current.onLasso(drawn.current.length >= 6 ? thinned(drawn.current) : null);
      drawn.current = null;
    } else if (drag.current && moved < 4 && event.type === "pointerup") {
      const latent = latentAt(placeOfEvent(event));
      if (latent !== null) latest.current.onOpen(latent);
    } else if (drag.current) latest.current.onCamera();
    drag.current = null;
  };
  const pointer = {
    onPointerDown: down,
    onPointerMove: move,
    onPointerUp: up,
    onPointerCancel: up,
    onPointerLeave: () => latest.current.onHover(null),
    onDblClick: () => {
      latest.current.camera.reset();
      latest.current.onCamera();
    },
    onWheel: (event: WheelEvent) => {
      event.preventDefault();
      const { right, up: high } = placeOfEvent(event);
      latest.current.camera.zoomBy(Math.exp(-event.deltaY / 400), [right, high]);
      latest.current.onCamera();
    },
  };
  return { drawn, pointer };
}

function looks({ index, route, passes, folded, theme }: Props): { colours: Uint8Array; sizes: Float32Array } {
  const count = passes.length;
  const colours = new Uint8Array(4 * count);
  const sizes = new Float32Array(count);
  const [bySize, byColour] = [statistic(route.size), statistic(route.colour)];
  const [sizeValues, colourValues] = [index.columns[bySize.key]!, index.columns[byColour.key]!];
  const [sizeScale, colourScale] = [robustScale(sizeValues, bySize.log), robustScale(colourValues, byColour.log)];
  const base = Math.min(1, Math.max(0.45, 26 / Math.sqrt(count)));
  const { categories } = PALETTES[theme];
  for (let i = 0; i < count; i++) {
    const rgb =
      byColour.key === "shape" ? categories[colourValues[i]] : alongSequence(theme, colourScale(colourValues[i]));
    colours.set([...rgb.map((part) => Math.round(255 * part)), passes[i] ? 215 : 26], 4 * i);
    const hidden = folded[i] || (isEmpty(index, i) && !route.showEmpty);
    sizes[i] = hidden ? 0 : base * (5 + 15 * Math.sqrt(sizeScale(sizeValues[i])) ** 1.6) * (passes[i] ? 1 : 0.7);
  }
  return { colours, sizes };
}

/** Ticks and names of the axes, and the selection. */
function drawFrame(
  canvas: HTMLCanvasElement,
  scatter: Scatter,
  { index, route, theme }: Props,
  stretch: [number, number],
  drawing: number[] | null,
): void {
  const scale = scatter.canvas.width / Math.max(1, scatter.canvas.clientWidth);
  canvas.width = scatter.canvas.width;
  canvas.height = scatter.canvas.height;
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  const [width, height] = [canvas.width / scale, canvas.height / scale];
  const palette = PALETTES[theme];
  pen.font = "11px Inter, system-ui, sans-serif";
  pen.fillStyle = css(palette.axis);
  pen.strokeStyle = theme === "dark" ? "rgb(255 255 255 / 7%)" : "rgb(0 0 0 / 7%)";
  if (route.layout === "statistics" || !index.columns.umap_x) {
    for (const place of [0, 1] as const) {
      const one = statistic(place ? route.y : route.x);
      const values = index.columns[one.key]!;
      const toUnit = unitScale(values, one.log);
      const marks = one.key === "shape" ? [...new Set(values)] : ticks(drawnRange(values, one.log), one.log);
      for (const mark of marks) {
        const along = (2 * toUnit(mark) - 1) * stretch[place];
        const at = scatter.place(place ? [0, along, 0] : [along, 0, 0]);
        drawTick(pen, place, place ? at.y : at.x, one.format(mark), width, height);
      }
    }
    pen.font = "600 12px Inter, system-ui, sans-serif";
    pen.fillStyle = css(palette.ink);
    pen.textAlign = "right";
    pen.fillText(`${statistic(route.x).name} →`, width - 8, height - 24);
    pen.textAlign = "left";
    pen.fillText(`↑ ${statistic(route.y).name}`, 8, 14);
  }
  const lasso = drawing ?? route.lasso;
  if (lasso) drawLasso(pen, scatter, lasso, stretch, css(palette.surface));
}

function drawTick(
  pen: CanvasRenderingContext2D,
  place: 0 | 1,
  at: number,
  text: string,
  width: number,
  height: number,
): void {
  pen.beginPath();
  if (place) {
    pen.moveTo(0, at);
    pen.lineTo(width, at);
  } else {
    pen.moveTo(at, 0);
    pen.lineTo(at, height);
  }
  pen.stroke();
  pen.textAlign = place ? "left" : "center";
  if (place && at > 10 && at < height - 22) pen.fillText(text, 8, at - 4);
  if (!place && at > 60 && at < width - 20) pen.fillText(text, at, height - 8);
}

function drawLasso(
  pen: CanvasRenderingContext2D,
  scatter: Scatter,
  corners: number[],
  stretch: [number, number],
  colour: string,
): void {
  pen.beginPath();
  for (let i = 0; i < corners.length; i += 2) {
    const { x, y } = scatter.place([corners[i] * stretch[0], corners[i + 1] * stretch[1], 0]);
    if (i) pen.lineTo(x, y);
    else pen.moveTo(x, y);
  }
  pen.closePath();
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = 1.5;
  pen.setLineDash([5, 4]);
  pen.stroke();
  pen.globalAlpha = 0.08;
  pen.fill();
  pen.globalAlpha = 1;
}
