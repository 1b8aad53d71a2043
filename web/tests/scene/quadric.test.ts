import assert from "node:assert/strict";
import { test } from "node:test";
import { frameOf, originIn, positionsOf, shownAxes } from "../../src/scene/geometry.ts";
import type { Frame } from "../../src/scene/geometry.ts";
import { centreIn, explained, levelIn, sliceOf, surfaceName, valueAt, whyNoSurface } from "../../src/scene/quadric.ts";
import type { Slice } from "../../src/scene/quadric.ts";
import type { Rgb } from "../../src/scene/scatter.ts";
import { DIRECTION, PARABOLOID } from "./latents.ts";

const FRAME: Frame = { centre: [0.1, -0.2, 0], radius: 0.8 };
const slice = (quadratic: Rgb, linear: Rgb = [0, 0, 0], constant = 0): Slice => ({ quadratic, linear, constant });
const near = (a: number, b: number, slack = 1e-6) => assert.ok(Math.abs(a - b) < slack, `${a} is not ${b}`);

/** Where a ray from the eye meets the surface, with the roots that the shader uses. */
function roots(surface: ReturnType<typeof levelIn>, origin: number[], ray: number[]): number[] {
  const { quadratic, linear, level } = surface;
  const sum = (of: (i: number) => number) => of(0) + of(1) + of(2);
  const a = sum((i) => quadratic[i] * ray[i] ** 2);
  const b = sum((i) => quadratic[i] * origin[i] * ray[i] + 0.5 * linear[i] * ray[i]);
  const c = sum((i) => quadratic[i] * origin[i] ** 2 + linear[i] * origin[i]) - level;
  const inside = b * b - a * c;
  if (inside < 0) return [];
  const w = -(b + (b < 0 ? -1 : 1) * Math.sqrt(inside));
  return [...(Math.abs(a) > 1e-9 ? [w / a] : []), ...(Math.abs(w) > 1e-12 ? [c / w] : [])];
}

test("a point lies on the level set of its own activation, in the picture's units", () => {
  const shown = shownAxes(PARABOLOID, [0, 1, 2], null);
  const frame = frameOf(shown);
  const [positions, origin] = [positionsOf(shown, frame), originIn(frame)];
  const own = sliceOf(PARABOLOID.constant, shown);
  for (const point of [0, 1, 2]) {
    const { quadratic, linear, level } = levelIn(own, PARABOLOID.values[point], frame);
    const at = [0, 1, 2].map((axis) => positions[3 * point + axis] - origin[axis]);
    near(at.reduce((sum, s, i) => sum + quadratic[i] * s * s + linear[i] * s, 0), level);
  }
});

const SLICES: [string, Slice, number][] = [
  ["shifted ellipsoid", slice([1.5, 0.8, 1.1], [-0.9, 0.3, 0.2], 0.4), 0.6],
  ["elliptic paraboloid", slice([1.5, 0.8, 0], [0.1, 0, 0.7], -0.2), 0.3],
  ["hyperbolic paraboloid", slice([1.5, -0.8, 0], [0, 0, -0.7], 0.1), 0.2],
  ["shifted hyperboloid", slice([1.2, 0.9, -0.7], [0.4, 0, 0.6], 0.1), 0.3],
  ["plane", slice([0, 0, 0], [0.6, -0.2, 0.1], 0.1), 0.2],
  ["almost a plane", slice([1e-7, 0, 0], [0.6, -0.2, 0.1], 0.1), 0.2],
  ["cylinder", slice([1.2, 0.9, 0], [0.4, 0, 0], 0.1), 0.3],
];

for (const [name, own, level] of SLICES)
  test(`rays meet the ${name} where z is the level`, () => {
    const [surface, origin] = [levelIn(own, level, FRAME), originIn(FRAME)];
    let met = 0;
    for (let i = 0; i < 400; i++) {
      const eye = [0, 1, 2].map((axis) => 4.2 * Math.sin(1 + i * (axis + 1.3)));
      const to = [0, 1, 2].map((axis) => Math.sin(2 + 1.7 * i * (axis + 1)) - eye[axis]);
      const ray = to.map((part) => part / Math.hypot(...to));
      for (const t of roots(surface, eye.map((part, axis) => part - origin[axis]), ray)) {
        const place = eye.map((part, axis) => part + t * ray[axis]);
        if (Math.hypot(...place) > 1.25) continue;
        near(valueAt(own, place.map((part, axis) => FRAME.centre[axis] + FRAME.radius * part)), level, 1e-5);
        met++;
      }
    }
    assert.ok(met > 50, `only ${met} rays met it`);
  });

test("a surface says what it is", () => {
  const name = (level: number, ...parts: Parameters<typeof slice>) => surfaceName(slice(...parts), level, FRAME);
  assert.equal(name(1, [1, 1, 1]), "ellipsoid");
  assert.equal(name(0, [1, 1, 1], [1, 0, 0]), "ellipsoid");
  assert.equal(name(1, [1, 1, -1]), "hyperboloid of one sheet");
  assert.equal(name(-1, [1, 1, -1]), "hyperboloid of two sheets");
  assert.equal(name(0, [1, 1, -1]), "cone");
  assert.equal(name(1, [1, 2, 0]), "elliptic cylinder");
  assert.equal(name(1, [1, -2, 0]), "hyperbolic cylinder");
  assert.equal(name(1, [1, 0, 0]), "pair of planes");
  assert.equal(name(1, [1, 2, 0], [0, 0, 1]), "elliptic paraboloid");
  assert.equal(name(1, [1, -2, 0], [0, 0, 1]), "hyperbolic paraboloid");
  assert.equal(name(1, [1, 0, 0], [0, 1, 0]), "parabolic cylinder");
  assert.equal(name(1, [0, 0, 0], [0, 1, 1]), "plane");
});

test("sheets of a hyperboloid are counted from its centre, not from zero", () => {
  const shifted = slice([1, 1, -1], [2, 0, 0], 5); // z = 4 at its centre
  assert.equal(surfaceName(shifted, 4.5, FRAME), "hyperboloid of one sheet");
  assert.equal(surfaceName(shifted, 3.5, FRAME), "hyperboloid of two sheets");
});

test("a bend too small to be seen in the frame does not name the surface", () => {
  assert.equal(surfaceName(slice([1, 1, 0.001], [0, 0, 0.8]), 0.2, FRAME), "elliptic paraboloid");
  const large = slice([0.1, 0.1, 0.05], [0, 0, 40]);
  assert.equal(surfaceName(large, 0.2, FRAME), "plane");
  assert.equal(surfaceName(large, 0.2, { ...FRAME, radius: 400 }), "ellipsoid");
});

test("why there is no surface: no own axis, a level that z never takes, or one beyond the picture", () => {
  assert.match(whyNoSurface(slice([0, 0, 0]), 1, FRAME)!, /not the latent's own/);
  assert.match(whyNoSurface(slice([1, 1, 1], [1, 0, 0]), -0.3, FRAME)!, /at least -0\.25/);
  assert.match(whyNoSurface(slice([-1, -1, 0], [0, 0, 0], 2), 2.1, FRAME)!, /at most 2\.0/);
  assert.match(whyNoSurface(slice([1, 1, 1]), 90, FRAME)!, /beyond the picture/);
  assert.equal(whyNoSurface(slice([1, 1, 0], [0, 0, 1]), -0.3, FRAME), null);
  assert.equal(whyNoSurface(slice([1, 1, -1]), -0.3, FRAME), null);
});

test("how much of z a surface accounts for is measured on the points", () => {
  const share = (axes: number[]) => {
    const shown = shownAxes(PARABOLOID, axes, null);
    return explained(sliceOf(PARABOLOID.constant, shown), shown, PARABOLOID.values)!;
  };
  near(share([0, 1, 2]), 1, 1e-3);
  assert.ok(share([0, 1, 3]) < 0.9);
  assert.equal(explained(slice([1, 1, 1]), [], [0.5]), null);
  assert.equal(explained(slice([0, 0, 0], [0, 0, 0], 9), shownAxes(PARABOLOID, [0, 1, 2], null), PARABOLOID.values), 0);
});

test("the centre is marked where the quadric has one within the frame", () => {
  const at = centreIn(slice([1, 2, -1], [-0.4, 0.4, 0]), FRAME)!;
  [0.2, -0.1, 0].forEach((part, i) => near(at[i], (part - FRAME.centre[i]) / FRAME.radius));
  assert.equal(centreIn(slice([1, 2, 0], [0, 0, 1]), FRAME), null);
  assert.equal(centreIn(slice([1, 2, -1], [-40, 0, 0]), FRAME), null);
  assert.equal(centreIn(slice([0, 0, 0], [1, 0, 0]), FRAME), null);
});

test("the level sets of a direction are planes, and where it fires z is its affine function exactly", () => {
  const shown = shownAxes(DIRECTION, [0, 1, 2], null);
  const own = sliceOf(DIRECTION.constant, shown);
  assert.equal(surfaceName(own, 0.3, frameOf(shown)), "plane");
  near(explained(own, shown, DIRECTION.values, true)!, 1);
  assert.ok(explained(own, shown, DIRECTION.values)! < 0.5);
});
