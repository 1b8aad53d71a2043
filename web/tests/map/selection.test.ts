import assert from "node:assert/strict";
import { test } from "node:test";
import type { Index } from "../../src/data/site.ts";
import {
  countEmpty,
  countsOf,
  foldedUnder,
  layoutOf,
  listed,
  originals,
  outward,
  passing,
  routeFor,
  thinned,
  ticks,
  within,
  worthALook,
} from "../../src/map/selection.ts";
import { MAP } from "../../src/ui/route.ts";

const column = (...values: number[]) => Float32Array.from(values);
const INDEX = {
  columns: {
    importance: column(1, 10, 100),
    effective_rank: column(1, 2, 3),
    captured: column(1, 0.5, 0.25),
    support: column(1, 1, 1),
    density: column(0.1, 0.9, 0.2),
    shape: column(1, 2, 3),
    measured_curvature: column(0, 0.5, 1),
    worth: column(0.1, 0.2, 0.3),
    copy_of: column(-1, -1, -1),
  },
  labels: [{}, {}, {}],
} as unknown as Index;

test("filters, dense latents and a selection leave what passes all", () => {
  const kept = (part: object) => {
    const route = { ...MAP, ...part };
    return [...passing(INDEX, route, layoutOf(INDEX, route))];
  };
  assert.deepEqual(kept({}), [1, 1, 1]);
  assert.deepEqual(kept({ hideDense: true }), [1, 0, 1]);
  assert.deepEqual(kept({ filters: { importance: [5, 200] } }), [0, 1, 1]);
  assert.deepEqual(kept({ lasso: [-1.1, -1.1, -0.9, -1.1, -0.9, -0.9, -1.1, -0.9] }), [1, 0, 0]);
});

test("the list is sorted as asked", () => {
  const all = Uint8Array.of(1, 1, 1);
  assert.deepEqual(listed(INDEX, MAP, all), [2, 1, 0]);
  assert.deepEqual(listed(INDEX, { ...MAP, sort: "captured", ascending: true }, all), [2, 1, 0]);
  assert.deepEqual(listed(INDEX, { ...MAP, sort: "latent", ascending: true }, Uint8Array.of(1, 0, 1)), [0, 2]);
  assert.deepEqual(listed(INDEX, { ...MAP, sort: "support" }, all), [0, 1, 2]);
  assert.deepEqual(worthALook(INDEX, 2), [2, 1]);
});

const WITH_COPIES = {
  ...INDEX,
  columns: { ...INDEX.columns, shape: column(0, 5, 5), copy_of: column(-1, 2, -1) },
} as unknown as Index;

test("empties are hidden unless asked for, and never worth a look", () => {
  const kept = (part: object) => {
    const route = { ...MAP, ...part };
    return [...passing(WITH_COPIES, route, layoutOf(WITH_COPIES, route))];
  };
  assert.equal(countEmpty(WITH_COPIES), 1);
  assert.deepEqual(kept({}), [0, 1, 1]);
  assert.deepEqual(kept({ showEmpty: true }), [1, 1, 1]);
  assert.deepEqual(kept({ filters: { shape: [5, 5] } }), [0, 1, 1]);
  assert.deepEqual(worthALook(WITH_COPIES), [2]);
  assert.deepEqual(countsOf(WITH_COPIES), { empty: 1, copies: 1, dense: 1 / 3 });
});

test("a copy is folded under the latent that it copies, through copies of copies, if that one passes", () => {
  const chain = { ...INDEX, columns: { copy_of: column(1, 2, -1) } } as unknown as Index;
  assert.deepEqual([...originals(chain)], [2, 2, 2]);
  assert.deepEqual([...foldedUnder(originals(chain), Uint8Array.of(1, 1, 1))], [1, 1, 0]);
  assert.deepEqual([...foldedUnder(originals(chain), Uint8Array.of(1, 1, 0))], [0, 0, 0]);
  const ring = { ...INDEX, columns: { copy_of: column(1, 0, -1) } } as unknown as Index;
  assert.equal(originals(ring).length, 3);
});

test("bounds are rounded as an address keeps them, and never inwards", () => {
  assert.deepEqual(outward([0.14421858, 3.5443122]), [0.1442, 3.545]);
  assert.deepEqual(outward([-3.5443122, -0.14421858]), [-3.545, -0.1442]);
  assert.deepEqual(outward([0, 2]), [0, 2]);
});

test("ticks are round and within the range", () => {
  assert.deepEqual(ticks([0.05, 0.83], false), [0.2, 0.4, 0.6, 0.8]);
  assert.deepEqual(ticks([0.02, 150], true), [0.1, 1, 10, 100]);
  assert.deepEqual(ticks([3, 3], false), [3]);
});

test("a long lasso keeps its form with few corners", () => {
  const corners = Array.from({ length: 2000 }, (_, i) => i);
  assert.ok(thinned(corners).length <= 64);
  assert.deepEqual(thinned([0, 1, 2, 3, 4, 5]), [0, 1, 2, 3, 4, 5]);
});

test("within a polygon", () => {
  const square = [0, 0, 1, 0, 1, 1, 0, 1];
  assert.equal(within(square, 0.5, 0.5), true);
  assert.equal(within(square, 1.5, 0.5), false);
});

test("the map of a linear dictionary shows statistics that directions have, and keeps those that were chosen", () => {
  assert.equal(routeFor(false, MAP), MAP);
  const shown = routeFor(true, MAP);
  assert.deepEqual([shown.x, shown.y, shown.size, shown.colour, shown.sort], ["importance", "density", "mean_square", "firing_share", "worth"]);
  const chosen = routeFor(true, { ...MAP, x: "firing_share", colour: "shape", sort: "latent" });
  assert.deepEqual([chosen.x, chosen.colour, chosen.sort], ["firing_share", "shape", "latent"]);
});
