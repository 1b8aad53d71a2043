// The address holds the whole state, so that a link shows exactly what its sender sees.
import { COLOURINGS } from "../scene/colours.ts";
import type { Colouring } from "../scene/colours.ts";
import { CONTROLS } from "../scene/geometry.ts";
import type { Control } from "../scene/geometry.ts";
import { ALL_STATISTICS } from "../data/statistics.ts";
import { ORDERS, SHOWN } from "../compare/counterparts.ts";
import type { Order, Shown } from "../compare/counterparts.ts";

export interface LatentRoute {
  page: "latent";
  dictionary: string | null;
  latent: number;
  axes: [number, number, number];
  camera: number[] | null;
  colour: Colouring;
  /** Which directions stand in for the latent's own, or null. */
  control: Control;
  eigenaxes: boolean;
  /** Level of the surface z = τ, or null when it is hidden. */
  surface: number | null;
  pins: number[];
  versus: number | null;
  /** The reader's own text, whose tokens are stars in the picture of a live viewer. */
  text: string;
}

/** The page where a reader tries a text. */
export interface TryRoute {
  page: "try";
  dictionary: string | null;
  text: string;
  /** The latent that colours the tokens; null for the strongest of each. */
  colour: number | null;
  /** The token whose latents are shown. */
  token: number | null;
}

export interface MapRoute {
  page: "map";
  dictionary: string | null;
  layout: "statistics" | "umap";
  x: string;
  y: string;
  size: string;
  colour: string;
  /** Bounds by column, as the reader set them. */
  filters: Record<string, [number, number]>;
  hideDense: boolean;
  showEmpty: boolean;
  /** Whether copies stand beside the latent that they copy instead of under it. */
  showCopies: boolean;
  /** Corners of the selection in the map's own units, x and y in turn. */
  lasso: number[] | null;
  camera: number[] | null;
  sort: string;
  ascending: boolean;
}

export interface CompareRoute {
  page: "compare";
  dictionary: string | null;
  /** The dictionary to compare with. */
  other: string;
  show: Shown;
  order: Order;
  /** The latent whose picture is shown beside that of its counterpart, or null. */
  pair: number | null;
}

export type Route = LatentRoute | MapRoute | TryRoute | CompareRoute;

export const MAP: MapRoute = {
  page: "map",
  dictionary: null,
  layout: "statistics",
  x: "measured_curvature",
  y: "density",
  size: "mean_square",
  colour: "effective_rank",
  filters: {},
  hideDense: false,
  showEmpty: false,
  showCopies: false,
  lasso: null,
  camera: null,
  sort: "worth",
  ascending: false,
};

export const LATENT: LatentRoute = {
  page: "latent",
  dictionary: null,
  latent: 0,
  axes: [0, 1, 2],
  camera: null,
  colour: "activation",
  control: null,
  eigenaxes: true,
  surface: null,
  pins: [],
  versus: null,
  text: "",
};

export const TRY: TryRoute = { page: "try", dictionary: null, text: "", colour: null, token: null };
export const COMPARE: CompareRoute = {
  page: "compare",
  dictionary: null,
  other: "",
  show: "all",
  order: "worth",
  pair: null,
};

const COLUMN_NAMES: string[] = ALL_STATISTICS.map(({ key }) => key);
const MOST_PINS = 12;

export function parseRoute(hash: string): Route {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(safeDecode);
  const values = new URLSearchParams(query);
  if (parts.length <= 2 && parts.at(-1) === "try") return tryRoute(parts.length === 2 ? parts[0] : null, values);
  if (parts.length === 3 && parts[1] === "versus") return compareRoute(parts[0], parts[2], values);
  const at = parts.indexOf("latent");
  if (at < 0 || parts.length <= at + 1) return mapRoute(parts[0] ?? null, values);
  return latentRoute(at > 0 ? parts[0] : null, Number(parts[at + 1]), values);
}

function tryRoute(dictionary: string | null, values: URLSearchParams): TryRoute {
  const whole = (name: string) => {
    const found = numbers(values.get(name));
    return found.length === 1 && Number.isInteger(found[0]) && found[0] >= 0 ? found[0] : null;
  };
  return { page: "try", dictionary, text: values.get("text") ?? "", colour: whole("colour"), token: whole("token") };
}

function mapRoute(dictionary: string | null, values: URLSearchParams): MapRoute {
  const column = (name: "x" | "y" | "size" | "colour" | "sort") => oneOf(values.get(name), COLUMN_NAMES, MAP[name]);
  return {
    page: "map",
    dictionary,
    layout: values.get("layout") === "umap" ? "umap" : "statistics",
    x: column("x"),
    y: column("y"),
    size: column("size"),
    colour: column("colour"),
    filters: filtersOf(values),
    hideDense: values.get("dense") === "hide",
    showEmpty: values.get("empty") === "show",
    showCopies: values.get("copies") === "show",
    lasso: lassoOf(values.get("lasso")),
    camera: cameraOf(values),
    sort: values.get("sort") === "latent" ? "latent" : column("sort"),
    ascending: values.get("order") === "up",
  };
}

function compareRoute(dictionary: string, other: string, values: URLSearchParams): CompareRoute {
  const pair = numbers(values.get("pair"));
  return {
    page: "compare",
    dictionary,
    other,
    show: SHOWN.find((each) => each === values.get("show")) ?? COMPARE.show,
    order: ORDERS.find((each) => each === values.get("order")) ?? COMPARE.order,
    pair: pair.length === 1 && Number.isInteger(pair[0]) && pair[0] >= 0 ? pair[0] : null,
  };
}

function latentRoute(dictionary: string | null, latent: number, values: URLSearchParams): LatentRoute {
  const axes = numbers(values.get("axes"));
  const surface = numbers(values.get("surface"));
  const versus = numbers(values.get("versus"));
  const usable = axes.length === 3 && axes.every((axis) => Number.isInteger(axis) && axis >= 0);
  return {
    page: "latent",
    dictionary,
    latent,
    axes: usable && new Set(axes).size === 3 ? (axes as [number, number, number]) : LATENT.axes,
    camera: cameraOf(values),
    colour: oneOf(values.get("colour"), [...COLOURINGS], "activation") as Colouring,
    control: CONTROLS.find((control) => control === values.get("control")) ?? null,
    eigenaxes: values.get("eigenaxes") !== "hide",
    surface: surface.length === 1 ? surface[0] : null,
    pins: numbers(values.get("pins"))
      .filter((pin) => Number.isInteger(pin) && pin >= 0)
      .slice(0, MOST_PINS),
    versus: versus.length === 1 && Number.isInteger(versus[0]) ? versus[0] : null,
    text: values.get("text") ?? "",
  };
}

function pageOf(route: Route): string {
  if (route.page === "latent") return `/latent/${route.latent}`;
  if (route.page === "compare") return `/versus/${encodeURIComponent(route.other)}`;
  return route.page === "try" ? "/try" : "";
}

export function formatRoute(route: Route): string {
  const values: string[] = [];
  const put = (name: string, value: string, standard: string) => {
    if (value !== standard)
      values.push(`${name}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%3A", ":")}`);
  };
  if (route.page === "map") {
    for (const name of ["layout", "x", "y", "size", "colour", "sort"] as const) put(name, route[name], MAP[name]);
    put("dense", route.hideDense ? "hide" : "", "");
    put("empty", route.showEmpty ? "show" : "", "");
    put("copies", route.showCopies ? "show" : "", "");
    put("order", route.ascending ? "up" : "", "");
    put("filter", filterText(route.filters), "");
    put("lasso", route.lasso?.map(short).join(",") ?? "", "");
  } else if (route.page === "try") {
    put("text", route.text, "");
    put("colour", route.colour === null ? "" : String(route.colour), "");
    put("token", route.token === null ? "" : String(route.token), "");
  } else if (route.page === "compare") {
    put("show", route.show, COMPARE.show);
    put("order", route.order, COMPARE.order);
    put("pair", route.pair === null ? "" : String(route.pair), "");
  } else {
    put("axes", route.axes.join(","), LATENT.axes.join(","));
    put("colour", route.colour, LATENT.colour);
    put("control", route.control ?? "", "");
    put("eigenaxes", route.eigenaxes ? "" : "hide", "");
    put("surface", route.surface === null ? "" : short(route.surface), "");
    put("pins", route.pins.join(","), "");
    put("versus", route.versus === null ? "" : String(route.versus), "");
    put("text", route.text, "");
  }
  if (route.page === "map" || route.page === "latent") put("camera", route.camera?.map(short).join(",") ?? "", "");
  const place = route.dictionary === null ? "" : `/${encodeURIComponent(route.dictionary)}`;
  const page = pageOf(route);
  return `#${place}${page || (place ? "" : "/")}${values.length ? `?${values.join("&")}` : ""}`;
}

function filtersOf(values: URLSearchParams): MapRoute["filters"] {
  const filters: MapRoute["filters"] = {};
  for (const part of (values.get("filter") ?? "").split(",").filter(Boolean)) {
    const [column, low, high] = part.split(":");
    const bounds = [Number(low), Number(high)] as [number, number];
    if (COLUMN_NAMES.includes(column) && bounds.every(Number.isFinite)) filters[column] = bounds;
  }
  return filters;
}

function filterText(filters: MapRoute["filters"]): string {
  return Object.entries(filters)
    .map(([column, [low, high]]) => `${column}:${short(low)}:${short(high)}`)
    .join(",");
}

function cameraOf(values: URLSearchParams): number[] | null {
  return values.has("camera") ? numbers(values.get("camera")) : null;
}

function lassoOf(text: string | null): number[] | null {
  const corners = numbers(text);
  return corners.length >= 6 && corners.length % 2 === 0 ? corners : null;
}

function numbers(text: string | null): number[] {
  if (!text) return [];
  const all = text.split(",").map(Number);
  return all.every(Number.isFinite) ? all : [];
}

function oneOf(value: string | null, choices: string[], standard: string): string {
  return value !== null && choices.includes(value) ? value : standard;
}

function short(number: number): string {
  return String(Number(number.toPrecision(4)));
}

function safeDecode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
