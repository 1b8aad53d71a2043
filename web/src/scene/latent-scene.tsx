// The 3D picture of one latent, on its page and in notebooks.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Camera } from "./camera.ts";
import { alongSequence, ofActivation, ofCluster, PALETTES, strongest } from "./colours.ts";
import type { Colouring, Theme } from "./colours.ts";
import type { Latent } from "../data/site.ts";
import { activationRange, allAboveRest } from "./activation.ts";
import { frameOf, originIn, positionsOf, shownAxes } from "./geometry.ts";
import type { Control, Frame, ShownAxis } from "./geometry.ts";
import { drawAxisNames, drawMarkers, drawPins, drawStars } from "./overlay.ts";
import type { Marker, StarMark } from "./overlay.ts";
import { centreIn, levelIn, sliceOf, whyNoSurface } from "./quadric.ts";
import { NoWebGl, Scatter } from "./scatter.ts";
import type { AxisLine, Rgb } from "./scatter.ts";
import { axisName, shortened } from "../ui/format.ts";

const LETTERS = ["X", "Y", "Z"];
/** Directions along which z has a slope and no curvature. */
const DOTTED = new Set<ShownAxis["kind"]>(["linear", "decoder", "encoder", "predictor"]);

export interface SceneProps {
  latent: Latent;
  axes: readonly number[];
  control: Control;
  eigenaxes: boolean;
  colour: Colouring;
  /** Position in its sequence of each point, 0 to 1; only when colouring by position. */
  positions: Float32Array | null;
  surface: number | null;
  camera: Camera;
  theme: Theme;
  /** Points ringed because something elsewhere on the page refers to them. */
  marked: number[];
  /** Whether the other points fade. */
  alone: boolean;
  pins: number[];
  /** Tokens that are no points of the latent, in the frame of the points. */
  stars?: (frame: Frame) => StarMark[];
  label: string;
  /** What the coordinates are measured from, e.g. "the mean token". */
  origin: string;
  animate: boolean;
  tokenText: (token: number) => string;
  onHover: (point: number | null, x: number, y: number) => void;
  onPin: (point: number) => void;
  onCamera: () => void;
  onScatter?: (scatter: Scatter | null) => void;
}

export function Scene(props: SceneProps) {
  const { canvas, overlay, scatter, failure } = useScatter(props);
  useDrawing(scatter, overlay, props);
  const pointer = usePointer(scatter, props);
  if (failure)
    return (
      <div class="scene scene-off" role="note">
        <h3>No 3D picture here</h3>
        <p>
          This browser offers no WebGL2 ({failure}). Every number behind the picture is in the tables below; to see the
          picture, allow hardware acceleration or try another browser.
        </p>
      </div>
    );
  return (
    <div class="scene" tabIndex={0} role="group" aria-label={props.label} {...pointer}>
      <canvas ref={canvas} class="scene-points" aria-hidden="true" />
      <canvas ref={overlay} class="scene-overlay" aria-hidden="true" />
    </div>
  );
}

/** A scatter that lives as long as its canvas. */
function useScatter(props: SceneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const scatter = useRef<Scatter | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    try {
      scatter.current = new Scatter(canvas.current!, props.camera, false);
    } catch (problem) {
      if (!(problem instanceof NoWebGl)) throw problem;
      setFailure(problem.message);
      return;
    }
    const observer = new ResizeObserver(() => scatter.current?.redraw());
    observer.observe(canvas.current!);
    props.onScatter?.(scatter.current);
    return () => {
      observer.disconnect();
      props.onScatter?.(null);
      scatter.current?.close();
      scatter.current = null;
    };
  }, []);
  return { canvas, overlay, scatter, failure };
}

/** Updates each part of the picture when what it depends on changes. */
function useDrawing(
  scatter: { current: Scatter | null },
  overlay: { current: HTMLCanvasElement | null },
  props: SceneProps,
) {
  const { latent, control } = props;
  const shown = useMemo(() => shownAxes(latent, props.axes, control), [latent, props.axes.join(), control]);
  const frame = useMemo(() => frameOf(shown), [shown]);
  const slice = useMemo(() => sliceOf(latent.constant, shown), [latent, shown]);
  const markers = useMemo(() => markersOf(originIn(frame), centreIn(slice, frame)), [slice, frame]);
  const first = useRef(true);

  useEffect(() => {
    const cloud = { positions: positionsOf(shown, frame), ...looksOf(props) };
    scatter.current?.show(cloud, props.animate && !first.current ? 450 : 0);
    first.current = false;
  }, [shown, frame, props.latent, props.colour, props.positions, props.theme]);

  useEffect(() => {
    scatter.current?.setAxes(props.eigenaxes ? axisLines(shown, props.theme) : [], originIn(frame));
  }, [shown, frame, props.eigenaxes, props.theme]);

  useEffect(() => {
    const hidden = props.surface === null || whyNoSurface(slice, props.surface, frame) !== null;
    const surface = hidden ? null : { ...levelIn(slice, props.surface!, frame), tint: PALETTES[props.theme].surface };
    scatter.current?.setSurface(surface);
  }, [slice, frame, props.surface, props.theme]);

  useEffect(() => {
    if (!scatter.current) return;
    scatter.current.ink = PALETTES[props.theme].ink;
    scatter.current.mark([...new Set([...props.pins, ...props.marked])], props.alone);
    const seen = props.eigenaxes ? markers : [];
    const stars = props.stars?.(frame) ?? [];
    scatter.current.onDraw = () => overlay.current && drawOverlay(overlay.current, scatter.current!, props, seen, stars);
    scatter.current.redraw();
  }, [props.marked.join(), props.pins.join(), props.alone, props.theme, props.latent, props.tokenText, markers, props.eigenaxes, props.stars, frame]);
}

/** Drag turns, shift-drag or two fingers move, the wheel zooms, a click pins. */
function usePointer(scatter: { current: Scatter | null }, props: SceneProps) {
  const active = useRef(new Map<number, { x: number; y: number }>());
  const moved = useRef(0);
  const latest = useRef(props);
  latest.current = props;
  const local = (event: PointerEvent | WheelEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, side: Math.min(box.width, box.height) / 2 };
  };
  const move = (event: PointerEvent) => {
    const at = local(event);
    const before = active.current.get(event.pointerId);
    if (!before) {
      const point = scatter.current?.pick(at.x, at.y) ?? -1;
      return latest.current.onHover(point < 0 ? null : point, at.x, at.y);
    }
    const [dx, dy] = [at.x - before.x, at.y - before.y];
    moved.current += Math.hypot(dx, dy);
    const { camera } = latest.current;
    if (active.current.size === 2) pinch(active.current, event.pointerId, at, camera, dx / at.side, dy / at.side);
    else if (event.shiftKey || event.buttons === 2) camera.shiftBy(dx / at.side, -dy / at.side);
    else camera.turn(dx / 160, dy / 160);
    active.current.set(event.pointerId, at);
  };
  const end = (event: PointerEvent) => {
    if (!active.current.delete(event.pointerId)) return;
    if (active.current.size) return;
    if (moved.current > 4) return latest.current.onCamera();
    const at = local(event);
    const point = scatter.current?.pick(at.x, at.y) ?? -1;
    if (point >= 0 && event.type === "pointerup") latest.current.onPin(point);
  };
  return {
    onPointerDown: (event: PointerEvent) => {
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      if (!active.current.size) moved.current = 0;
      active.current.set(event.pointerId, local(event));
      latest.current.onHover(null, 0, 0);
    },
    onPointerMove: move,
    onPointerUp: end,
    onPointerCancel: end,
    onPointerLeave: () => latest.current.onHover(null, 0, 0),
    onContextMenu: (event: Event) => event.preventDefault(),
    onWheel: (event: WheelEvent) => {
      event.preventDefault();
      latest.current.camera.zoomBy(Math.exp(-event.deltaY / 500));
      latest.current.onCamera();
    },
  };
}

function pinch(
  active: Map<number, { x: number; y: number }>,
  moving: number,
  at: { x: number; y: number },
  camera: Camera,
  dx: number,
  dy: number,
): void {
  const still = [...active].find(([id]) => id !== moving)![1];
  const before = active.get(moving)!;
  const ratio =
    Math.hypot(at.x - still.x, at.y - still.y) / Math.max(1, Math.hypot(before.x - still.x, before.y - still.y));
  camera.zoomBy(ratio);
  camera.shiftBy(dx / 2, -dy / 2);
}

/** The mean token, and the centre of the quadric where it is elsewhere in the frame. */
export function markersOf(origin: Rgb, centre: Rgb | null): Marker[] {
  const markers: Marker[] = [{ kind: "origin", at: origin }];
  if (centre) markers.push({ kind: "centre", at: centre });
  return markers;
}

/** Colours and sizes: points far from rest are larger and more opaque. */
function looksOf({ latent, colour, positions, theme }: SceneProps): { colours: Uint8Array; sizes: Float32Array } {
  const steps = allAboveRest(latent);
  const colours = new Uint8Array(4 * steps.length);
  const sizes = new Float32Array(steps.length);
  const { reach } = activationRange(latent);
  const ranks = colour === "token" ? strongest(latent.tokens, steps) : null;
  for (let i = 0; i < steps.length; i++) {
    const strength = reach > 0 ? Math.min(1, Math.abs(steps[i]) / reach) : 0;
    const rgb = colourOf(latent, i, steps[i], colour, theme, reach, ranks, positions);
    colours.set([...rgb.map((part) => Math.round(255 * part)), 130 + Math.round(125 * Math.sqrt(strength))], 4 * i);
    sizes[i] = 3.4 + 4.6 * Math.sqrt(strength);
  }
  return { colours, sizes };
}

function colourOf(
  latent: Latent,
  point: number,
  step: number,
  colour: Colouring,
  theme: Theme,
  reach: number,
  ranks: Map<number, number> | null,
  positions: Float32Array | null,
): Rgb {
  const palette = PALETTES[theme];
  if (colour === "sign") return step >= 0 ? palette.positive : palette.negative;
  if (colour === "token") return palette.categories[ranks!.get(latent.tokens[point]) ?? -1] ?? palette.quiet;
  if (colour === "cluster") return ofCluster(theme, latent.clusters[point]);
  if (colour === "position") return positions ? alongSequence(theme, positions[point]) : palette.quiet;
  return ofActivation(theme, step, reach);
}

function axisLines(shown: ShownAxis[], theme: Theme): AxisLine[] {
  const palette = PALETTES[theme];
  return shown.map((axis, direction) => ({
    direction: direction as 0 | 1 | 2,
    stroke: DOTTED.has(axis.kind) ? "dotted" : axis.quadratic < 0 ? "dashed" : "solid",
    colour: axis.kind === "random" ? palette.quiet : palette.axis,
    label: `${LETTERS[direction]}  ${axisName(axis)}`,
  }));
}

/** Names of the axes, markers and pinned tokens, on a canvas so that the PNG has them too. */
function drawOverlay(
  canvas: HTMLCanvasElement,
  scatter: Scatter,
  props: SceneProps,
  markers: Marker[],
  stars: StarMark[],
): void {
  const scale = scatter.canvas.width / Math.max(1, scatter.canvas.clientWidth);
  canvas.width = scatter.canvas.width;
  canvas.height = scatter.canvas.height;
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  drawMarkers(pen, scatter, markers, props.theme);
  drawAxisNames(pen, scatter, props.theme);
  drawStars(pen, scatter, stars, props.theme);
  const text = (pin: number) => shortened(props.tokenText(props.latent.tokens[pin]).trim(), 32) || "␣";
  drawPins(pen, scatter, props.pins, text, props.theme);
}
