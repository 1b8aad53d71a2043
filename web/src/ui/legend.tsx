import { css } from "../scene/colours.ts";
import { STROKES } from "../scene/overlay.ts";
import type { Marker } from "../scene/overlay.ts";
import type { Rgb } from "../scene/scatter.ts";

const STEPS = 25;

/** A strip of colours from 0 to 1. */
export function Scale({ colour }: { colour: (share: number) => Rgb }) {
  return (
    <svg
      class="scale"
      viewBox={`0 0 ${STEPS} 1`}
      preserveAspectRatio="none"
      shape-rendering="crispEdges"
      aria-hidden="true"
    >
      {Array.from({ length: STEPS }, (_, i) => (
        <rect key={i} x={i} y="0" width="1.05" height="1" fill={css(colour(i / (STEPS - 1)))} />
      ))}
    </svg>
  );
}

export function Swatch({ colour, name }: { colour: string; name: string }) {
  return (
    <li>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        <circle cx="5" cy="5" r="4.5" fill={colour} />
      </svg>
      <bdi>{name}</bdi>
    </li>
  );
}

export function MarkerName({ kind, name }: { kind: Marker["kind"]; name: string }) {
  return (
    <li>
      <svg class={`marker ${kind}`} viewBox="-8 -8 16 16" width="13" height="13" aria-hidden="true">
        {STROKES[kind].map((stroke, i) => (
          <polyline key={i} points={stroke.map((corner) => corner.join()).join(" ")} />
        ))}
      </svg>
      {name}
    </li>
  );
}
