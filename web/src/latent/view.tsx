// One latent's picture with its tooltip and legend, for the latent's page and for comparisons.
import { useEffect, useState } from "preact/hooks";
import type { Camera } from "../scene/camera.ts";
import { alongSequence, css, ofActivation, PALETTES, strongest } from "../scene/colours.ts";
import type { Colouring, Theme } from "../scene/colours.ts";
import { Around } from "./contexts.tsx";
import { lastAtMost } from "../data/site.ts";
import type { Latent, Site, SiteText } from "../data/site.ts";
import { largestValue } from "../scene/geometry.ts";
import { useMedia } from "../ui/hooks.ts";
import { Scale, Swatch } from "../ui/legend.tsx";
import type { Scatter } from "../scene/scatter.ts";
import { Scene } from "../scene/latent-scene.tsx";
import { shortened, signed } from "../ui/format.ts";
import { placeTooltip } from "../ui/tooltip.ts";

interface Props {
  site: Site;
  text: SiteText;
  latent: Latent;
  axes: readonly number[];
  control: boolean;
  eigenaxes: boolean;
  colour: Colouring;
  surface: number | null;
  camera: Camera;
  theme: Theme;
  label: string;
  marked: number[];
  alone: boolean;
  pins: number[];
  onHover: (point: number | null) => void;
  onPin: (point: number) => void;
  onCamera: () => void;
  onScatter?: (scatter: Scatter | null) => void;
}

export function LatentView(props: Props) {
  const { latent, text } = props;
  const [hover, setHover] = useState<{ point: number; x: number; y: number } | null>(null);
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const positions = usePositions(latent, text, props.colour === "position");
  useEffect(() => setHover(null), [latent]);
  return (
    <div class="latent-view">
      <Scene
        {...props}
        positions={positions}
        animate={!still}
        marked={hover ? [...props.marked, hover.point] : props.marked}
        tokenText={tokenTextOf(text)}
        onHover={(point, x, y) => {
          setHover(point === null ? null : { point, x, y });
          props.onHover(point);
        }}
      />
      {hover && hover.point < latent.values.length && (
        <div
          class={`tooltip ${hover.y < 130 ? "below" : ""}`}
          ref={(element) => placeTooltip(element, hover.x, hover.y)}
        >
          <header>
            <b>
              <bdi>{shortened(text.vocabulary.text(latent.tokens[hover.point]), 160)}</bdi>
            </b>
            <span class="value">z = {signed(latent.values[hover.point], 3)}</span>
          </header>
          <p>
            <Around site={props.site} text={text} latent={latent} point={hover.point} reach={8} />
          </p>
          <small class="quiet">click to pin</small>
        </div>
      )}
      <Legend {...props} />
    </div>
  );
}

const textFunctions = new WeakMap<SiteText, (token: number) => string>();

/** The same function for the same text, so that effects that depend on it run only when the text changes. */
function tokenTextOf(text: SiteText): (token: number) => string {
  let found = textFunctions.get(text);
  if (!found) textFunctions.set(text, (found = (token) => text.vocabulary.text(token)));
  return found;
}

function usePositions(latent: Latent, text: SiteText, wanted: boolean): Float32Array | null {
  const [positions, setPositions] = useState<{ latent: Latent; values: Float32Array } | null>(null);
  useEffect(() => {
    if (!wanted) return;
    const values = new Float32Array(latent.places.length);
    latent.places.forEach((place, i) => {
      if (text.unit === "row") return (values[i] = place / Math.max(1, text.entry.n_tokens - 1));
      const sequence = lastAtMost(text.sequenceStarts, place);
      const start = text.sequenceStarts[sequence];
      const end = text.sequenceStarts[sequence + 1] ?? text.entry.n_tokens;
      values[i] = (place - start) / Math.max(1, end - start - 1);
    });
    setPositions({ latent, values });
  }, [latent, text, wanted]);
  return wanted && positions?.latent === latent ? positions.values : null;
}

/** Ends of the scale that colours points by position. */
const ENDS = { token: ["start of sequence", "end"], row: ["first row", "last"] };

function Legend({ latent, text, colour, theme }: Props) {
  const palette = PALETTES[theme];
  if (colour === "token")
    return (
      <ul class="legend" aria-label="Colours">
        {[...strongest(latent.tokens, latent.values)].map(([token, rank]) => (
          <Swatch key={token} colour={css(palette.categories[rank])} name={shortened(text.vocabulary.text(token), 40)} />
        ))}
        <Swatch colour={css(palette.quiet)} name={`any other ${text.unit}`} />
      </ul>
    );
  if (colour === "sign")
    return (
      <ul class="legend" aria-label="Colours">
        <Swatch colour={css(palette.positive)} name="z > 0" />
        <Swatch colour={css(palette.negative)} name="z < 0" />
      </ul>
    );
  const largest = largestValue(latent);
  const ofStep = (t: number) => (colour === "position" ? alongSequence(theme, t) : ofActivation(theme, 2 * t - 1, 1));
  const [low, high] = colour === "position" ? ENDS[text.unit] : [signed(-largest), signed(largest)];
  return (
    <div class="legend" role="group" aria-label="Colours">
      <span>{low}</span>
      <Scale colour={ofStep} />
      <span>{high}</span>
    </div>
  );
}
