// One latent's picture with its tooltip and legend, for the latent's page and for comparisons.
import { useEffect, useState } from "preact/hooks";
import type { Camera } from "../scene/camera.ts";
import { alongSequence, css, ofActivation, ofCluster, PALETTES, strongest } from "../scene/colours.ts";
import type { Colouring, Theme } from "../scene/colours.ts";
import { Around } from "./contexts.tsx";
import { lastAtMost } from "../data/site.ts";
import type { Latent, Site, SiteText } from "../data/site.ts";
import type { Cluster } from "../data/schema.ts";
import { visible } from "../data/vocabulary.ts";
import { aboveRest, activationRange, allAboveRest } from "../scene/activation.ts";
import { frameOf, shownAxes } from "../scene/geometry.ts";
import type { Control, Frame } from "../scene/geometry.ts";
import type { StarMark } from "../scene/overlay.ts";
import { centreIn, sliceOf } from "../scene/quadric.ts";
import { useMedia } from "../ui/hooks.ts";
import { MarkerName, Scale, Swatch } from "../ui/legend.tsx";
import type { Scatter } from "../scene/scatter.ts";
import { Scene } from "../scene/latent-scene.tsx";
import { fromRest, shortened, signed } from "../ui/format.ts";
import { placeTooltip } from "../ui/tooltip.ts";

interface Props {
  site: Site;
  text: SiteText;
  latent: Latent;
  axes: readonly number[];
  control: Control;
  eigenaxes: boolean;
  colour: Colouring;
  /** The latent's clusters, largest first. */
  clusters: Cluster[];
  surface: number | null;
  camera: Camera;
  theme: Theme;
  label: string;
  /** What coordinates are measured from. */
  origin: string;
  marked: number[];
  alone: boolean;
  pins: number[];
  stars?: (frame: Frame) => StarMark[];
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
            <span class="value">z = {fromRest(aboveRest(latent, hover.point))}</span>
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

function Legend(props: Props) {
  return (
    <div class="legend">
      <Colours {...props} />
      <Markers {...props} />
    </div>
  );
}

/** The diamond and the cross, where they are drawn. */
export function Markers({
  latent,
  axes,
  control,
  eigenaxes,
  origin,
}: Pick<Props, "latent" | "axes" | "control" | "eigenaxes" | "origin">) {
  if (!eigenaxes) return null;
  const shown = shownAxes(latent, axes, control);
  const centre = centreIn(sliceOf(latent.constant, shown), frameOf(shown));
  return (
    <ul aria-label="Markers">
      <MarkerName kind="origin" name={origin === "the origin" ? "origin" : `origin: ${origin}`} />
      {centre && <MarkerName kind="centre" name="centre of the quadric" />}
    </ul>
  );
}

function Colours({ latent, text, colour, clusters, theme }: Props) {
  const palette = PALETTES[theme];
  if (colour === "cluster")
    return (
      <ul aria-label="Colours">
        {clusters.slice(0, palette.categories.length).map(({ name, stability }, cluster) => (
          <Swatch
            key={cluster}
            colour={css(ofCluster(theme, cluster))}
            name={`${shortened(visible(name), 40)} (${stability.toFixed(2)})`}
          />
        ))}
        <Swatch
          colour={css(palette.quiet)}
          name={clusters.length > palette.categories.length ? "any other cluster, or none" : "in no cluster"}
        />
      </ul>
    );
  if (colour === "token")
    return (
      <ul aria-label="Colours">
        {[...strongest(latent.tokens, allAboveRest(latent))].map(([token, rank]) => (
          <Swatch key={token} colour={css(palette.categories[rank])} name={shortened(text.vocabulary.text(token), 40)} />
        ))}
        <Swatch colour={css(palette.quiet)} name={`any other ${text.unit}`} />
      </ul>
    );
  if (colour === "sign")
    return (
      <ul aria-label="Colours">
        <Swatch colour={css(palette.positive)} name="z > rest" />
        <Swatch colour={css(palette.negative)} name="z < rest" />
      </ul>
    );
  const { low, high, reach } = activationRange(latent);
  const ofStep = (t: number) =>
    colour === "position" ? alongSequence(theme, t) : ofActivation(theme, low + t * (high - low), reach);
  const [first, last] = colour === "position" ? ENDS[text.unit] : [`z − rest ${signed(low)}`, signed(high)];
  return (
    <div class="ramp" role="group" aria-label="Colours">
      <span>{first}</span>
      <Scale colour={ofStep} />
      <span>{last}</span>
    </div>
  );
}
