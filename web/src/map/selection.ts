// Which latents the map shows, where, and their order in the list: pure functions.
import { NOTHING, SHAPES } from "../data/schema.ts";
import type { Column } from "../data/schema.ts";
import { choicesOf, statistic, unitScale } from "../data/statistics.ts";
import type { Index } from "../data/site.ts";
import type { MapRoute } from "../ui/route.ts";

export const DENSE = 0.5;
/** Map positions run from −1 to 1 in both directions, before the canvas stretches them. */
export interface Layout {
  x: Float32Array;
  y: Float32Array;
}

const INSTEAD: Record<"x" | "y" | "size" | "colour" | "sort", Column> = {
  x: "importance",
  y: "density",
  size: "mean_square",
  colour: "firing_share",
  sort: "worth",
};

/** The route with statistics that a linear dictionary has in the place of those that it has not. */
export function routeFor(isLinear: boolean, route: MapRoute): MapRoute {
  if (!isLinear) return route;
  const known = new Set<string>([...choicesOf(true).map(({ key }) => key), "latent"]);
  const shown = { ...route };
  for (const place of ["x", "y", "size", "colour", "sort"] as const)
    if (!known.has(route[place])) shown[place] = INSTEAD[place];
  return shown;
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

const EMPTY = SHAPES.indexOf("empty");

/** Whether each latent has no form at all. */
export function isEmpty(index: Index, latent: number): boolean {
  return index.columns.shape![latent] === EMPTY;
}

export function countEmpty(index: Index): number {
  return index.columns.shape!.reduce((sum, shape) => sum + Number(shape === EMPTY), 0);
}

/** The latent that each copies in the end, or itself. */
export function originals(index: Index): Int32Array {
  const copied = index.columns.copy_of;
  return Int32Array.from({ length: index.labels.length }, (_, latent) => {
    let at = latent;
    for (let steps = 0; copied && copied[at] !== NOTHING && steps < copied.length; steps++) at = copied[at];
    return at;
  });
}

/** Empty latents, copies of others, and the share of dense ones. */
export function countsOf(index: Index): { empty: number; copies: number; dense: number } {
  const copies = originals(index).filter((source, latent) => source !== latent && !isEmpty(index, latent)).length;
  const dense = index.columns.density!.filter((density) => density > DENSE).length / Math.max(1, index.labels.length);
  return { empty: countEmpty(index), copies, dense };
}

/** Whether each latent is folded under another one that passes too. */
export function foldedUnder(sources: Int32Array, passes: Uint8Array): Uint8Array {
  return Uint8Array.from(sources, (source, latent) => Number(source !== latent && passes[latent] && passes[source]));
}

/** Bounds with the four digits that an address keeps, rounded outwards so that neither end loses its latent. */
export function outward([low, high]: [number, number]): [number, number] {
  const rounded = (number: number, up: boolean) => {
    const near = Number(number.toPrecision(4));
    if (number === 0 || (up ? near >= number : near <= number)) return near;
    const step = 10 ** (Math.floor(Math.log10(Math.abs(number))) - 3);
    return Number((near + (up ? step : -step)).toPrecision(4));
  };
  return [rounded(low, false), rounded(high, true)];
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
    const empty = !route.showEmpty && isEmpty(index, i);
    if (outside || dense || unselected || empty) passes[i] = 0;
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

/** Latents worth a look, for the sidebar: neither empty nor copies. */
export function worthALook(index: Index, most = 20): number[] {
  const values = index.columns.worth!;
  const sources = originals(index);
  return Array.from(values.keys())
    .filter((latent) => !isEmpty(index, latent) && sources[latent] === latent)
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
