// Eigenvalues as bars; a click puts one on an axis of the picture.
import { useState } from "preact/hooks";
import type { Latent } from "../data/site.ts";
import { drawableAxes } from "../scene/geometry.ts";
import { signed } from "../ui/format.ts";

const LETTERS = ["X", "Y", "Z"];
const HEIGHT = 124;
const LETTER = 16;

interface Props {
  latent: Latent;
  axes: readonly number[];
  captured: number;
  onAxes: (axes: [number, number, number]) => void;
}

export function Spectrum({ latent, axes, captured, onAxes }: Props) {
  const [chosen, setChosen] = useState<number | null>(null);
  const shown = Math.min(latent.eigenvalues.length, 32);
  const largest = Math.abs(latent.eigenvalues[0] ?? 1) || 1;
  const drawable = drawableAxes(latent);
  const up = Math.max(0, ...latent.eigenvalues) / largest;
  const down = Math.max(0, ...latent.eigenvalues.map((value) => -value)) / largest;
  const unit = (HEIGHT - (up ? LETTER : 2) - (down ? LETTER : 2)) / (up + down || 1);
  const assign = (place: number) => {
    if (chosen === null) return;
    const next = [...axes] as [number, number, number];
    const former = next.indexOf(chosen);
    if (former >= 0) next[former] = next[place]; // the two axes swap places
    next[place] = chosen;
    onAxes(next);
    setChosen(null);
  };
  return (
    <div class="spectrum">
      <div class="bars" role="group" aria-label="Eigenvalues by size">
        {Array.from({ length: shown }, (_, i) => (
          <Bar
            key={i}
            index={i}
            value={latent.eigenvalues[i]}
            base={(up ? LETTER : 2) + unit * up}
            height={Math.max(2, (unit * Math.abs(latent.eigenvalues[i])) / largest)}
            letter={axes.indexOf(i) >= 0 && i < drawable ? LETTERS[axes.indexOf(i)] : ""}
            chosen={chosen === i}
            drawable={i < drawable}
            onChoose={() => setChosen(chosen === i ? null : i)}
          />
        ))}
      </div>
      {chosen !== null ? (
        <p class="assign">
          Show λ{chosen + 1} = {signed(latent.eigenvalues[chosen], 3)} on{" "}
          {LETTERS.map((letter, place) => (
            <button type="button" key={letter} onClick={() => assign(place)}>
              {letter}
            </button>
          ))}
        </p>
      ) : (
        <p class="quiet">
          {latent.rank} eigenvalue{latent.rank === 1 ? "" : "s"}
          {latent.rank > shown ? `, the ${shown} largest drawn` : ""}. The three axes shown carry{" "}
          <b>{Math.round(100 * captured)} %</b> of Σ|λ|. Choose a bar to put it on an axis.
        </p>
      )}
    </div>
  );
}

interface BarProps {
  index: number;
  value: number;
  base: number;
  height: number;
  letter: string;
  chosen: boolean;
  drawable: boolean;
  onChoose: () => void;
}

function Bar({ index, value, base, height, letter, chosen, drawable, onChoose }: BarProps) {
  const up = value >= 0;
  const name = `λ${index + 1} = ${signed(value, 3)}${letter ? `, on ${letter}` : ""}`;
  return (
    <button
      type="button"
      class={`bar ${up ? "positive" : "negative"} ${letter ? "shown" : ""}`}
      aria-pressed={chosen}
      aria-label={drawable ? name : `${name}; no coordinates stored`}
      title={name}
      disabled={!drawable}
      onClick={onChoose}
    >
      <svg viewBox={`0 0 20 ${HEIGHT}`} width="20" height={HEIGHT} aria-hidden="true">
        <line x1="0" x2="20" y1={base} y2={base} class="base" />
        <rect x="4" width="12" y={up ? base - height : base} height={height} rx="2" />
        <text x="10" y={up ? base - height - 4 : base + height + 12}>
          {letter}
        </text>
      </svg>
    </button>
  );
}
