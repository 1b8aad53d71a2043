// Which latents the map shows, where, and their order in the list: pure functions.
import { range, statistic, unitScale } from "../data/statistics.ts";
import type { Index } from "../data/site.ts";
import type { MapRoute } from "../ui/route.ts";

export const DENSE = 0.5;
/** Map positions run from −1 to 1 in both directions, before the canvas stretches them. */
export interface Layout {
  x: Float32Array;
  y: Float32Array;
}

export function layoutOf(index: Index, route: MapRoute): Layout {
  const { columns } = index;
  if (route.layout === "umap" && columns.umap_x && columns.umap_y)
    return { x: spread(columns.umap_x, false), y: spread(columns.umap_y, false) };
  const [x, y] = [statistic(route.x), statistic(route.y)];
  return { x: spread(columns[x.key]!, x.log), y: spread(columns[y.key]!, y.log) };
}

function spread(values: Float32Array, log: boolean): Float32Array {
  const scale = unitScale(values, log);
  return values.map((value) => 2 * scale(value) - 1);
}

/** Whether each latent passes the reader's bounds and selection. */
export function passing(index: Index, route: MapRoute, layout: Layout): Uint8Array {
  const { columns } = index;
  const count = index.labels.length;
  const passes = new Uint8Array(count).fill(1);
  const bounds = Object.entries(route.filters);
  for (let i = 0; i < count; i++) {
    const outside = bounds.some(([name, [low, high]]) => {
      const value = columns[statistic(name).key]![i];
      return value < low || value > high;
    });
    const dense = route.hideDense && columns.density![i] > DENSE;
    const unselected = route.lasso !== null && !within(route.lasso, layout.x[i], layout.y[i]);
    if (outside || dense || unselected) passes[i] = 0;
  }
  return passes;
}

/** Latents that pass, in the chosen order; ties by index. */
export function listed(index: Index, route: MapRoute, passes: Uint8Array): number[] {
  const kept = Array.from(passes.keys()).filter((i) => passes[i]);
  if (route.sort === "latent") return route.ascending ? kept : kept.reverse();
  const values = index.columns[statistic(route.sort).key]!;
  const direction = route.ascending ? 1 : -1;
  return kept.sort((a, b) => direction * (values[a] - values[b]) || a - b);
}

/** The most important latents, for the sidebar. */
export function mostImportant(index: Index, most = 20): number[] {
  const values = index.columns.importance!;
  return Array.from(values.keys())
    .sort((a, b) => values[b] - values[a] || a - b)
    .slice(0, most);
}

/** Round numbers within a range, about `most` of them; powers of ten where the scale is logarithmic. */
export function ticks([low, high]: [number, number], log: boolean, most = 6): number[] {
  if (!(high > low)) return [low];
  if (log && low > 0) {
    const powers = [];
    for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) powers.push(10 ** power);
    if (powers.length >= 2) return powers;
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((multiple) => power * multiple >= rough)!;
  const all = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) all.push(Number((i * step).toPrecision(12)));
  return all;
}

/** Positive values only where the scale is logarithmic. */
export function drawnRange(values: Float32Array, log: boolean): [number, number] {
  return range(log ? values.filter((value) => value > 0) : values);
}

/** A polygon reduced to about `most` corners. */
export function thinned(corners: number[], most = 32): number[] {
  const count = corners.length / 2;
  const step = Math.max(1, count / most);
  const kept = [];
  for (let i = 0; i < count; i += step) {
    const at = Math.floor(i);
    kept.push(corners[2 * at], corners[2 * at + 1]);
  }
  return kept;
}

/** Whether a place lies within a polygon given as x and y in turn. */
export function within(lasso: number[], x: number, y: number): boolean {
  let inside = false;
  const count = lasso.length / 2;
  for (let i = 0, j = count - 1; i < count; j = i++) {
    const [xi, yi, xj, yj] = [lasso[2 * i], lasso[2 * i + 1], lasso[2 * j], lasso[2 * j + 1]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
