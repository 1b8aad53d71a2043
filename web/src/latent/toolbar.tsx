// Controls of the picture, and its downloads.
import { useState } from "preact/hooks";
import { COLOURINGS } from "../scene/colours.ts";
import type { Colouring } from "../scene/colours.ts";
import type { Latent, Unit } from "../data/site.ts";
import { largestValue, surfaceName, whyNoSurface } from "../scene/geometry.ts";
import type { ShownAxis } from "../scene/geometry.ts";
import type { LatentRoute } from "../ui/route.ts";
import { signed } from "../ui/format.ts";

interface SurfaceProps {
  route: LatentRoute;
  latent: Latent;
  shown: ShownAxis[];
  captured: number;
  onChange: (change: Partial<LatentRoute>) => void;
}

interface Props extends SurfaceProps {
  unit: Unit;
}

/** What a colouring is called where points are rows. */
const FOR_ROWS: Partial<Record<Colouring, string>> = { token: "row text", position: "row number" };

export function Toolbar({ route, latent, unit, onChange }: Props) {
  return (
    <div class="toolbar" role="toolbar" aria-label="Picture">
      <label>
        Colour
        <select
          aria-label="Colour"
          value={route.colour}
          onChange={(event) => onChange({ colour: event.currentTarget.value as Colouring })}
        >
          {COLOURINGS.map((name) => (
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
      <Toggle
        on={route.control}
        hint="r"
        name="Random control"
        onToggle={() => onChange({ control: !route.control })}
      />
    </div>
  );
}

/** Half of the strongest activation: a level that has points on both sides. */
export function startingLevel(latent: Latent): number {
  return Number(((latent.values[0] ?? 0) / 2).toPrecision(3));
}

function Toggle({ on, name, hint, onToggle }: { on: boolean; name: string; hint: string; onToggle: () => void }) {
  return (
    <button type="button" aria-pressed={on} onClick={onToggle} title={`${name} (key ${hint})`}>
      {name}
    </button>
  );
}

/** Level of the surface, its name, and a caution where the axes shown miss much of the form. */
export function SurfaceControl({
  route,
  latent,
  shown,
  captured,
  onChange,
  reach = largestValue(latent),
}: SurfaceProps & { reach?: number }) {
  if (route.surface === null) return null;
  const why = whyNoSurface(shown, route.surface);
  return (
    <div class="surface-control">
      <label>
        <span>Surface z = τ</span>
        <input
          type="range"
          min={-reach}
          max={reach}
          step={reach / 100 || 1}
          value={route.surface}
          onInput={(event) => onChange({ surface: Number(Number(event.currentTarget.value).toPrecision(3)) })}
        />
        <output>τ = {signed(route.surface)}</output>
      </label>
      <p class={captured < 0.9 || why ? "caution" : "quiet"}>
        {why ??
          `${sentence(surfaceName(shown, route.surface))}: Σ λu² = τ over the axes shown, with all others at 0. ${
            captured < 0.9
              ? `The axes left out carry ${Math.round(100 * (1 - captured))} % of Σ|λ|, so points of this activation may lie well off the surface.`
              : `They carry ${Math.round(100 * captured)} % of Σ|λ|.`
          }`}
      </p>
    </div>
  );
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
