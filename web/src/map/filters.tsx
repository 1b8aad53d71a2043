// Bounds on the five statistics.
import { range, STATISTICS, unitScale } from "../data/statistics.ts";
import type { Statistic } from "../data/statistics.ts";
import type { Index, Unit } from "../data/site.ts";
import { DENSE } from "./selection.ts";
import type { MapRoute } from "../ui/route.ts";

interface Props {
  index: Index;
  route: MapRoute;
  unit: Unit;
  passing: number;
  onChange: (part: Partial<MapRoute>) => void;
}

const STEPS = 100;

export function Filters({ index, route, unit, passing, onChange }: Props) {
  const active = Object.keys(route.filters).length > 0 || route.hideDense || route.lasso !== null;
  const set = (key: string, bounds: [number, number] | null) => {
    const filters = { ...route.filters };
    if (bounds) filters[key] = bounds;
    else delete filters[key];
    onChange({ filters });
  };
  return (
    <section class="panel filters" aria-label="Filters">
      <h2>Filters</h2>
      {STATISTICS.map((each) => (
        <Bounds
          key={each.key}
          statistic={each}
          explanation={each.explain(unit)}
          values={index.columns[each.key]!}
          bounds={route.filters[each.key]}
          onSet={(bounds) => set(each.key, bounds)}
        />
      ))}
      <label class="check">
        <input
          type="checkbox"
          checked={route.hideDense}
          onChange={(event) => onChange({ hideDense: event.currentTarget.checked })}
        />
        Hide dense latents (density above {DENSE})
      </label>
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
    onSet(low <= 0 && high >= STEPS ? null : [from, to]);
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
