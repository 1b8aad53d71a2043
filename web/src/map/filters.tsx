// Bounds on the statistics, and which latents are left out.
import { range, SHAPE, statisticsOf, unitScale } from "../data/statistics.ts";
import type { Statistic } from "../data/statistics.ts";
import type { Index, Unit } from "../data/site.ts";
import { SHAPES } from "../data/schema.ts";
import type { DictionaryEntry } from "../data/schema.ts";
import { countEmpty, DENSE, outward } from "./selection.ts";
import type { MapRoute } from "../ui/route.ts";

interface Props {
  entry: DictionaryEntry;
  index: Index;
  route: MapRoute;
  unit: Unit;
  passing: number;
  /** Copies that could be folded. */
  copies: number;
  onChange: (part: Partial<MapRoute>) => void;
}

const STEPS = 100;

export function Filters({ entry, index, route, unit, passing, copies, onChange }: Props) {
  const active = Object.keys(route.filters).length > 0 || route.hideDense || route.lasso !== null;
  const empty = countEmpty(index);
  const set = (key: string, bounds: [number, number] | null) => {
    const filters = { ...route.filters };
    if (bounds) filters[key] = bounds;
    else delete filters[key];
    onChange({ filters });
  };
  return (
    <section class="panel filters" aria-label="Filters">
      <h2>Filters</h2>
      {statisticsOf(entry.is_linear).map((each) => (
        <Bounds
          key={each.key}
          statistic={each}
          explanation={each.explain(unit)}
          values={index.columns[each.key]!}
          bounds={route.filters[each.key]}
          onSet={(bounds) => set(each.key, bounds)}
        />
      ))}
      <ShapeChoice index={index} bounds={route.filters.shape} onSet={(bounds) => set("shape", bounds)} />
      <Check on={route.hideDense} onSet={(hideDense) => onChange({ hideDense })}>
        Hide dense latents (density above {DENSE})
      </Check>
      {copies > 0 && (
        <Check on={route.showCopies} onSet={(showCopies) => onChange({ showCopies })}>
          Show {counted(copies, "copy", "copies")} apart
        </Check>
      )}
      {empty > 0 && (
        <Check on={route.showEmpty} onSet={(showEmpty) => onChange({ showEmpty })}>
          Show {counted(empty, "empty latent", "empty latents")}
        </Check>
      )}
      <p class="quiet" role="status">
        {passing.toLocaleString("en")} pass
      </p>
      {active && (
        <button type="button" onClick={() => onChange({ filters: {}, hideDense: false, lasso: null })}>
          Clear all
        </button>
      )}
    </section>
  );
}

function counted(count: number, one: string, many: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

interface CheckProps {
  on: boolean;
  onSet: (on: boolean) => void;
  children: preact.ComponentChildren;
}

function Check({ on, onSet, children }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(event) => onSet(event.currentTarget.checked)} />
      <span>{children}</span>
    </label>
  );
}

interface ShapeProps {
  index: Index;
  bounds: [number, number] | undefined;
  onSet: (bounds: [number, number] | null) => void;
}

/** One shape or all; an address keeps it like any other bound. */
function ShapeChoice({ index, bounds, onSet }: ShapeProps) {
  const count = (shape: number) => index.columns.shape!.reduce((sum, each) => sum + Number(each === shape), 0);
  return (
    <label class="shape-choice" title={SHAPE.explain("row")}>
      Shape
      <select
        aria-label="Only the shape"
        value={bounds ? String(bounds[0]) : ""}
        onChange={({ currentTarget: { value } }) => onSet(value === "" ? null : [Number(value), Number(value)])}
      >
        <option value="">all</option>
        {SHAPES.map((name, shape) => (
          <option key={name} value={shape} disabled={!count(shape)}>
            {name} ({count(shape).toLocaleString("en")})
          </option>
        ))}
      </select>
    </label>
  );
}

interface BoundsProps {
  statistic: Statistic;
  explanation: string;
  values: Float32Array;
  bounds: [number, number] | undefined;
  onSet: (bounds: [number, number] | null) => void;
}

function Bounds({ statistic, explanation, values, bounds, onSet }: BoundsProps) {
  const whole = range(values);
  const [low, high] = bounds ?? whole;
  const toUnit = unitScale(values, statistic.log);
  const step = (value: number) => Math.round(STEPS * toUnit(value));
  const move = (low: number, high: number) => {
    const from = low <= 0 ? whole[0] : valueAt(values, statistic.log, low / STEPS);
    const to = high >= STEPS ? whole[1] : valueAt(values, statistic.log, high / STEPS);
    onSet(low <= 0 && high >= STEPS ? null : outward([from, to]));
  };
  return (
    <fieldset class="bounds" title={explanation}>
      <legend>
        <span>{statistic.name}</span>
        <span class="value">
          {statistic.format(low)} – {statistic.format(high)}
        </span>
      </legend>
      <div class="two-ended">
        <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
          <rect class="whole" width="100" height="4" rx="2" />
          <rect x={step(low)} width={Math.max(0, step(high) - step(low))} height="4" />
        </svg>
        <input
          type="range"
          min={0}
          max={STEPS}
          value={step(low)}
          aria-label={`Least ${statistic.name.toLowerCase()}`}
          aria-valuetext={statistic.format(low)}
          onInput={(event) => move(Math.min(Number(event.currentTarget.value), step(high)), step(high))}
        />
        <input
          type="range"
          min={0}
          max={STEPS}
          value={step(high)}
          aria-label={`Largest ${statistic.name.toLowerCase()}`}
          aria-valuetext={statistic.format(high)}
          onInput={(event) => move(step(low), Math.max(Number(event.currentTarget.value), step(low)))}
        />
      </div>
    </fieldset>
  );
}

/** The value at a share of the scale: the inverse of unitScale. */
export function valueAt(values: Float32Array, log: boolean, share: number): number {
  const [low, high] = range(log ? values.filter((value) => value > 0) : values);
  return log ? low * (high / low) ** share : low + share * (high - low);
}
