// Eigenvalues of the quadratic part and the linear direction as bars; a click puts one on an axis of the picture. The
// latents of a linear dictionary have no eigenvalues: their bars are the slopes of z along their axes.
import { useState } from "preact/hooks";
import type { Latent } from "../data/site.ts";
import { eigenvaluesOfAxes, isDrawable, linearAxis, shownAxes } from "../scene/geometry.ts";
import { axisName, signed } from "../ui/format.ts";

const LETTERS = ["X", "Y", "Z"];
const HEIGHT = 124;
const LETTER = 16;
const MOST = 32;

interface Props {
  latent: Latent;
  axes: readonly number[];
  captured: number;
  /** Whether a control is shown instead of the axes. */
  control: boolean;
  onAxes: (axes: [number, number, number]) => void;
}

interface Item {
  /** The axis that shows it, or −1. */
  axis: number;
  kind: "positive" | "negative" | "linear" | "component";
  name: string;
  /** In units of λ. */
  size: number;
}

export function Spectrum({ latent, axes, captured, control, onAxes }: Props) {
  const [chosen, setChosen] = useState<Item | null>(null);
  const items = itemsOf(latent);
  const drawn = Math.min(latent.eigenvalues.length, MOST);
  const largest = Math.max(...items.map(({ size }) => size)) || 1;
  const side = (down: boolean) =>
    Math.max(0, ...items.map(({ kind, size }) => ((kind === "negative") === down ? size : 0))) / largest;
  const [up, down] = [side(false), side(true)];
  const unit = (HEIGHT - (up ? LETTER : 2) - (down ? LETTER : 2)) / (up + down || 1);
  const assign = (place: number) => {
    if (chosen === null) return;
    const next = [...axes] as [number, number, number];
    const former = next.indexOf(chosen.axis);
    if (former >= 0) next[former] = next[place]; // the two axes swap places
    next[place] = chosen.axis;
    onAxes(next);
    setChosen(null);
  };
  return (
    <div class="spectrum">
      <div class="bars" role="group" aria-label={latent.isLinear ? "Slopes along the axes" : "Eigenvalues by size"}>
        {items.map((item) => (
          <Bar
            key={item.name}
            item={item}
            base={(up ? LETTER : 2) + unit * up}
            height={Math.max(2, (unit * item.size) / largest)}
            letter={item.axis >= 0 && !control ? (LETTERS[axes.indexOf(item.axis)] ?? "") : ""}
            chosen={chosen?.name === item.name}
            onChoose={() => setChosen(chosen?.name === item.name ? null : item)}
          />
        ))}
      </div>
      {chosen !== null ? (
        <p class="assign">
          Show {chosen.name} on{" "}
          {LETTERS.map((letter, place) => (
            <button type="button" key={letter} onClick={() => assign(place)}>
              {letter}
            </button>
          ))}
        </p>
      ) : latent.isLinear ? (
        <p class="quiet">
          A direction has no eigenvalues. Bars are slopes of z before its gate along what the latent writes (decoder) and
          what it reads besides (the rest of the encoder); along the principal components of all data, which fill up the
          picture, it is 0. Choose a bar to put it on an axis.
        </p>
      ) : (
        <p class="quiet">
          {linearAxis(latent) >= 0 &&
            "The hatched bar is the linear direction, as high as an eigenvalue that moves z as much at the farthest point. "}
          {latent.rank} eigenvalue{latent.rank === 1 ? "" : "s"}
          {latent.rank > drawn ? `, the ${drawn} largest drawn` : ""}. The axes shown carry{" "}
          <b>{Math.round(100 * captured)} %</b> of Σ|λ|. Choose a bar to put it on an axis.
        </p>
      )}
    </div>
  );
}

/** The linear direction first, if the latent has one, then eigenvalues by size. */
function itemsOf(latent: Latent): Item[] {
  if (latent.isLinear) return slopesOf(latent);
  const ranks = eigenvaluesOfAxes(latent).map((rank, axis) => (isDrawable(latent, axis) ? rank : -1));
  const values = Array.from(latent.eigenvalues.subarray(0, MOST), (value, rank): Item => ({
    axis: ranks.indexOf(rank),
    kind: value >= 0 ? "positive" : "negative",
    name: `λ${rank + 1} = ${signed(value, 3)}`,
    size: Math.abs(value),
  }));
  const axis = linearAxis(latent);
  if (axis < 0) return values;
  const slope = latent.axisLinear[axis];
  // slope·ξ and λ·ξ² are compared at the farthest point: at distance 1 there may be none.
  const size = Math.abs(slope) / farthest(latent);
  return [{ axis, kind: "linear", name: `linear direction, slope ${signed(slope, 3)}`, size }, ...values];
}

/** The axes of a direction, by their slopes; equal names would be one bar. */
function slopesOf(latent: Latent): Item[] {
  const axes = Array.from(latent.axisKind.keys()).filter((axis) => isDrawable(latent, axis));
  const shown = shownAxes(latent, axes, null);
  const first = shown.findIndex(({ kind }) => kind === "component");
  return shown.map((each, place): Item => ({
    axis: axes[place],
    kind: each.kind === "component" ? "component" : "linear",
    name: each.kind === "component" ? `principal component ${place - first + 1}` : axisName(each),
    size: Math.abs(each.linear),
  }));
}

/** Largest coordinate of any point, or 1 without points. */
function farthest({ coordinates }: Latent): number {
  let most = 0;
  for (const values of coordinates) for (const value of values) most = Math.max(most, Math.abs(value));
  return most || 1;
}

interface BarProps {
  item: Item;
  base: number;
  height: number;
  letter: string;
  chosen: boolean;
  onChoose: () => void;
}

function Bar({ item: { kind, name, axis }, base, height, letter, chosen, onChoose }: BarProps) {
  const up = kind !== "negative";
  const spoken = `${name}${letter ? `, on ${letter}` : ""}`;
  return (
    <button
      type="button"
      class={`bar ${kind} ${letter ? "shown" : ""}`}
      aria-pressed={chosen}
      aria-label={axis >= 0 ? spoken : `${spoken}; no coordinates stored`}
      title={spoken}
      disabled={axis < 0}
      onClick={onChoose}
    >
      <svg viewBox={`0 0 20 ${HEIGHT}`} width="20" height={HEIGHT} aria-hidden="true">
        <line x1="0" x2="20" y1={base} y2={base} class="base" />
        <rect x="4" width="12" y={up ? base - height : base} height={height} rx="2" />
        {kind === "linear" && <path class="hatch" d={hatching(base - height, base)} />}
        <text x="10" y={up ? base - height - 4 : base + height + 12}>
          {letter}
        </text>
      </svg>
    </button>
  );
}

/** Slanted strokes across a bar. */
function hatching(top: number, bottom: number): string {
  const strokes = [];
  for (let y = bottom; y - 6 >= top; y -= 6) strokes.push(`M4 ${y.toFixed(1)}l12 -6`);
  return strokes.join("");
}
