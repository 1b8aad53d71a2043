import assert from "node:assert/strict";
import { test } from "node:test";
import { COMPARE, formatRoute, LATENT, MAP, parseRoute, TRY } from "../../src/ui/route.ts";
import type { Route } from "../../src/ui/route.ts";

const ROUTES: Route[] = [
  { ...MAP, dictionary: "composite" },
  {
    ...MAP,
    dictionary: "a b/c",
    layout: "umap",
    colour: "shape",
    filters: { density: [0.1, 0.5], importance: [1, 20] },
    hideDense: true,
    showEmpty: true,
    showCopies: true,
    lasso: [0, 0, 1, 0, 0.5, -1],
    camera: [-0.22, 0.34, 0.08, 0.91, 3, 0.5, -0.25],
    sort: "latent",
    ascending: true,
  },
  { ...LATENT, dictionary: "composite", latent: 6724 },
  {
    ...LATENT,
    dictionary: "x",
    latent: 3,
    axes: [4, 0, 2],
    camera: [0.1, -0.2, 0.3, 0.9, 1.5, 0, -0.25],
    colour: "token",
    control: "linear",
    eigenaxes: false,
    surface: -0.125,
    pins: [3, 99],
    versus: 12,
  },
  { ...LATENT, dictionary: "x", latent: 4, control: "random" },
  { ...LATENT, dictionary: "x", latent: 4, text: "a & b=c #1?\n50 %, é" },
  { ...TRY, dictionary: "a b/c" },
  { ...TRY, dictionary: "x", text: "what? a/b & <c>", colour: 7, token: 0 },
  TRY,
  { ...COMPARE, dictionary: "a b/c", other: "versus" },
  { ...COMPARE, dictionary: "x", other: "y", show: "without", order: "overlap", pair: 7 },
];

test("an address gives back the state it was made from", () => {
  for (const route of ROUTES) assert.deepEqual(parseRoute(formatRoute(route)), route);
});

test("the short addresses work", () => {
  assert.deepEqual(parseRoute(""), MAP);
  assert.deepEqual(parseRoute("#/"), MAP);
  assert.deepEqual(parseRoute("#/latent/6724"), { ...LATENT, latent: 6724 });
  assert.equal(formatRoute(MAP), "#/");
  assert.equal(formatRoute({ ...LATENT, dictionary: "composite", latent: 5 }), "#/composite/latent/5");
});

test("nonsense in an address falls back instead of breaking the page", () => {
  const route = parseRoute("#/c/latent/7?axes=0,0,1&camera=a,b&colour=red&control=yes&pins=-1,x&surface=&versus=1.5");
  assert.deepEqual(route, { ...LATENT, dictionary: "c", latent: 7, camera: [] });
  assert.deepEqual(parseRoute("#/c?x=nothing&filter=bad:1:2,density:a:b&lasso=1,2"), { ...MAP, dictionary: "c" });
  assert.deepEqual(parseRoute("#/a/versus/b?show=x&order=y&pair=-1"), { ...COMPARE, dictionary: "a", other: "b" });
  assert.equal(parseRoute("#/%E0%A4%A").page, "map");
});
