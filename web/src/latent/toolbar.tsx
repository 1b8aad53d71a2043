// Controls of the picture, and its downloads.
import { useState } from "preact/hooks";
import { COLOURINGS } from "../scene/colours.ts";
import type { Colouring } from "../scene/colours.ts";
import type { Latent, Unit } from "../data/site.ts";
import { largestStep, startingLevel } from "../scene/activation.ts";
import { frameOf, linearAxis, showsAllItReads } from "../scene/geometry.ts";
import type { Control, ShownAxis } from "../scene/geometry.ts";
import { explained, sliceOf, surfaceName, whyNoSurface } from "../scene/quadric.ts";
import type { LatentRoute } from "../ui/route.ts";
import { percent, signed } from "../ui/format.ts";

interface SurfaceProps {
  route: LatentRoute;
  latent: Latent;
  shown: ShownAxis[];
  captured: number;
  onChange: (change: Partial<LatentRoute>) => void;
}

interface Props extends SurfaceProps {
  unit: Unit;
  hasClusters: boolean;
}

/** What a colouring is called where points are rows. */
const FOR_ROWS: Partial<Record<Colouring, string>> = { token: "row text", position: "row number" };

export function Toolbar({ route, latent, unit, hasClusters, onChange }: Props) {
  return (
    <div class="toolbar" role="toolbar" aria-label="Picture">
      <label>
        Colour
        <select
          aria-label="Colour"
          value={route.colour}
          onChange={(event) => onChange({ colour: event.currentTarget.value as Colouring })}
        >
          {COLOURINGS.filter((name) => name !== "cluster" || hasClusters || route.colour === name).map((name) => (
            <option key={name} value={name}>
              {(unit === "row" && FOR_ROWS[name]) || name}
            </option>
          ))}
        </select>
      </label>
      <Toggle on={route.eigenaxes} hint="a" name="Axes" onToggle={() => onChange({ eigenaxes: !route.eigenaxes })} />
      <Toggle
        on={route.surface !== null}
        hint="s"
        name="Surface"
        onToggle={() => onChange({ surface: route.surface === null ? startingLevel(latent) : null })}
      />
      <Controls control={route.control} onChange={onChange} />
    </div>
  );
}

interface ControlsProps {
  control: Control;
  /** A control for which there is no data. */
  without?: Control;
  onChange: (change: { control: Control }) => void;
}

/** The same points on directions that are not the latent's own. */
export function Controls({ control, without = null, onChange }: ControlsProps) {
  const turn = (name: "random" | "linear") => () => onChange({ control: control === name ? null : name });
  return (
    <>
      <Toggle on={control === "random"} hint="r" name="Random control" onToggle={turn("random")} />
      {without !== "linear" && (
        <Toggle on={control === "linear"} hint="l" name="Linear control" onToggle={turn("linear")} />
      )}
    </>
  );
}

/** What a control shows, and what to conclude from it. */
export function ControlNote({ control, unit, isLinear }: { control: Control; unit: Unit; isLinear: boolean }) {
  if (!control) return null;
  if (control === "linear" && isLinear)
    return (
      <p class="caution">
        Linear control: the same {unit}s, with X the one direction that best predicts z, Y and Z random. This latent is a
        direction, so X should look like the latent's own: what differs is its gate, not a shape.
      </p>
    );
  return (
    <p class="caution">
      {control === "random"
        ? `Random control: the same ${unit}s on three random directions. Structure that survives here is not this latent's.`
        : `Linear control: the same ${unit}s, with X the one direction that best predicts z, Y and Z random. If this picture looks as good, the latent is a direction.`}
    </p>
  );
}

function Toggle({ on, name, hint, onToggle }: { on: boolean; name: string; hint: string; onToggle: () => void }) {
  return (
    <button type="button" aria-pressed={on} onClick={onToggle} title={`${name} (key ${hint})`}>
      {name}
    </button>
  );
}

/** A surface that accounts for less of the variance of z is shown with a caution. */
const TRUSTED = 0.8;

/** Level of the surface, its name, and a caution where the axes shown miss much of the form. */
export function SurfaceControl({
  route,
  latent,
  shown,
  captured,
  onChange,
  reach = largestStep(latent),
}: SurfaceProps & { reach?: number }) {
  if (route.surface === null) return null;
  const [slice, frame] = [sliceOf(latent.constant, shown), frameOf(shown)];
  const why = whyNoSurface(slice, route.surface, frame);
  const share = why ? null : explained(slice, shown, latent.values, latent.isLinear);
  // Where the points themselves show that the surface fits, a small share of Σ|λ| is no reason for doubt.
  const missing = latent.isLinear || (share !== null && share >= TRUSTED) ? null : leftOut(latent, shown, captured);
  return (
    <div class="surface-control">
      <label>
        <span>Surface z = τ</span>
        <input
          type="range"
          min={latent.isLinear ? 0 : latent.rest - reach}
          max={latent.rest + reach}
          step={reach / 100 || 1}
          value={route.surface}
          onInput={(event) => onChange({ surface: Number(Number(event.currentTarget.value).toPrecision(3)) })}
        />
        <output>τ = {signed(route.surface)}</output>
      </label>
      <p class={missing || why || (share !== null && share < TRUSTED) ? "caution" : "quiet"}>
        {why ?? (latent.isLinear ? planeText(latent, shown, share) : null) ??
          `${sentence(surfaceName(slice, route.surface, frame))}: Σ(λξ² + slope·ξ) + ${constantText(latent)} = τ over the axes shown, with all others at 0. ${
            missing ?? `They carry ${Math.round(100 * captured)} % of Σ|λ|.`
          }${share === null ? "" : ` Over the points drawn, this formula accounts for ${percent(share)} of the variance of z.`}`}
      </p>
    </div>
  );
}

/** What the plane of a direction is, and how far the points bear it out. */
function planeText(latent: Latent, shown: ShownAxis[], share: number | null): string {
  const whole = showsAllItReads(latent, shown) ? "" : " Not all that the latent reads is among the axes shown, so points may lie well off the plane.";
  const found = share === null ? "" : ` Over the points on which it fires, this formula accounts for ${percent(share)} of the variance of z.`;
  return `Plane: z before its gate, Σ slope·ξ + ${constantText(latent)} = τ over the axes shown. The gate sets z to 0 where it is negative or not among the strongest.${whole}${found}`;
}

function constantText({ constant }: Latent): string {
  return constant < 0 ? `(${signed(constant)})` : signed(constant).slice(1);
}

/** What the surface misses, or null where that is little. */
function leftOut(latent: Latent, shown: ShownAxis[], captured: number): string | null {
  const off = "so points of this activation may lie well off the surface.";
  if (linearAxis(latent) >= 0 && !shown.some(({ kind }) => kind === "linear"))
    return `The linear direction is not among them, ${off}`;
  // The less curved a latent is, the less its eigenvalues matter.
  if (latent.curvature * (1 - captured) <= 0.1) return null;
  return `The axes left out carry ${Math.round(100 * (1 - captured))} % of Σ|λ|, ${off}`;
}

function sentence(text: string): string {
  return text[0].toUpperCase() + text.slice(1);
}

interface DownloadProps {
  onPicture: () => void;
  onTable: () => void;
  snippet: string;
}

export function Downloads({ onPicture, onTable, snippet }: DownloadProps) {
  const [copied, setCopied] = useState("");
  const copy = async (what: string, text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(`${what} copied`);
    } catch {
      setCopied("The browser refused to copy");
    }
    setTimeout(() => setCopied(""), 2500);
  };
  return (
    <div class="downloads">
      <button type="button" onClick={onPicture}>
        PNG
      </button>
      <button type="button" onClick={onTable}>
        CSV
      </button>
      <button type="button" onClick={() => copy("Python", snippet)}>
        Copy Python
      </button>
      <button type="button" onClick={() => copy("Link", location.href)}>
        Copy link
      </button>
      <span role="status" class="quiet">
        {copied}
      </span>
    </div>
  );
}
