// All positions are in units of the cloud's radius; `aspect` fits the shorter side of the canvas to one.

const PROJECTION = `
uniform mat3 rotation; uniform vec2 aspect; uniform vec2 shift; uniform float zoom; uniform float eye; uniform float flat2d;
vec4 project(vec3 at) {
  if (flat2d > 0.5) return vec4((at.xy * zoom + shift) * aspect, 0.0, 1.0);
  vec3 seen = rotation * at;
  float depth = eye - seen.z;
  vec2 screen = seen.xy * (eye / depth) * zoom + shift;
  return vec4(screen * aspect, clamp(-seen.z / 2.5, -0.999, 0.999), 1.0);
}`;

export const POINT_VERTEX = `#version 300 es
precision highp float;
layout(location=0) in vec3 before; layout(location=1) in vec3 after; layout(location=2) in vec4 colour; layout(location=3) in float size;
uniform float progress; uniform float pixels; uniform float ring; uniform float dim;
out vec4 shade; out float diameter;
${PROJECTION}
void main() {
  vec3 at = mix(before, after, progress);
  gl_Position = project(at);
  float near = flat2d > 0.5 ? 1.0 : eye / (eye - (rotation * at).z);
  diameter = size * pixels * near + ring * 7.0;
  if (size <= 0.0) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = diameter;
  float fog = flat2d > 0.5 ? 1.0 : smoothstep(0.72, 1.12, near) * 0.55 + 0.45;
  shade = vec4(colour.rgb, colour.a * fog * dim);
}`;

export const POINT_FRAGMENT = `#version 300 es
precision highp float;
in vec4 shade; in float diameter; out vec4 result;
uniform float ring; uniform vec3 ink;
void main() {
  float radius = length(gl_PointCoord - 0.5) * 2.0;
  float edge = 2.0 / max(diameter, 2.0);
  float cover = 1.0 - smoothstep(1.0 - edge, 1.0, radius);
  if (ring > 0.5) {
    float inner = 1.0 - 5.0 / diameter;
    float hoop = cover * smoothstep(inner - edge, inner, radius);
    result = vec4(ink * hoop, hoop);
  } else {
    float alpha = cover * shade.a;
    result = vec4(shade.rgb * alpha, alpha);
  }
  if (result.a < 0.03) discard;
}`;

export const LINE_VERTEX = `#version 300 es
precision highp float;
layout(location=0) in vec3 at; layout(location=1) in vec4 colour; layout(location=2) in float along;
out vec4 shade; out float travelled;
${PROJECTION}
void main() { gl_Position = project(at); shade = colour; travelled = along; }`;

export const LINE_FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade; in float travelled; out vec4 result;
void main() {
  if (travelled >= 0.0 && fract(travelled) > 0.55) discard;
  result = vec4(shade.rgb * shade.a, shade.a);
}`;

export const SURFACE_VERTEX = `#version 300 es
precision highp float;
layout(location=0) in vec2 corner; out vec2 plane;
uniform vec2 aspect; uniform vec2 shift; uniform float zoom; uniform float eye; uniform float bound;
void main() {
  // Only the ball to which the surface is clipped: every pixel costs two square roots.
  float reach = bound * eye * inversesqrt(eye * eye - bound * bound) * zoom;
  vec2 screen = clamp((corner * reach + shift) * aspect, -1.0, 1.0);
  plane = (screen / aspect - shift) / zoom;
  gl_Position = vec4(screen, 0.0, 1.0);
}`;

// The intersection of each pixel's ray with Σ(quadratic·s² + linear·s) = level solves a quadratic equation, so the surface
// is exact at any zoom. Its roots w/a and c/w lose no digits when the ray meets an almost flat surface (a near 0). At the
// eye, from which all rays start, c is the value less the level and halfslope half the gradient: the same for all pixels.
export const SURFACE_FRAGMENT = `#version 300 es
precision highp float;
in vec2 plane; out vec4 result;
uniform mat3 rotation; uniform float eye;
uniform vec3 quadratic; uniform vec3 linear; uniform float far; uniform vec3 tint; uniform float bound; uniform vec3 middle;
uniform vec3 start; uniform vec3 halfslope; uniform float c;
const float BEYOND = 1e6;
void main() {
  if (dot(plane, plane) * (eye * eye - bound * bound) > bound * bound * eye * eye) discard; // the ray misses the ball
  vec3 ray = normalize(vec3(plane, -eye)) * rotation;
  float a = dot(quadratic, ray * ray);
  float b = dot(halfslope, ray);
  float inside = b * b - a * c;
  if (inside < 0.0) discard;
  float w = -(b + (b < 0.0 ? -1.0 : 1.0) * sqrt(inside));
  float one = abs(a) > 1e-9 ? w / a : BEYOND;
  float other = abs(w) > 1e-12 ? c / w : BEYOND;
  float t = far > 0.5 ? max(one, other) : min(one, other);
  vec3 at = start + t * ray;
  vec3 place = at + middle;
  float reach = length(place);
  if (t < 0.0 || reach > bound) discard;
  vec3 slope = 2.0 * quadratic * at + linear;
  float facing = min(1.0, abs(dot(slope, ray)) * inversesqrt(dot(slope, slope) + 1e-12));
  float seen = dot(vec3(rotation[0].z, rotation[1].z, rotation[2].z), place);
  gl_FragDepth = clamp(-seen / 2.5, -0.999, 0.999) * 0.5 + 0.5;
  vec3 cells = at * 4.0;
  vec3 grid = abs(fract(cells + 0.5) - 0.5) / (fwidth(cells) + 1e-5);
  float line = 1.0 - smoothstep(0.4, 1.3, min(grid.x, min(grid.y, grid.z)));
  float side = 1.0 - facing;
  float rim = side * side * sqrt(side); // without the logarithm that pow takes
  float alpha = (0.10 + 0.34 * rim + 0.20 * line) * smoothstep(bound, bound * 0.82, reach);
  result = vec4(tint * alpha, alpha);
}`;
