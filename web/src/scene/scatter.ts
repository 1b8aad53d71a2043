// A small WebGL2 scatter: points that can move between two positions, axes, and an exact quadric surface.
import { Camera, EYE, rotationMatrix } from "./camera.ts";
import { SURFACE_BOUND } from "./quadric.ts";
import {
  LINE_FRAGMENT,
  LINE_VERTEX,
  POINT_FRAGMENT,
  POINT_VERTEX,
  SURFACE_FRAGMENT,
  SURFACE_VERTEX,
} from "./shaders.ts";

export type Rgb = [number, number, number];

export interface Cloud {
  /** x, y, z of each point in units of the cloud's radius. */
  positions: Float32Array;
  /** r, g, b, a of each point, 0 to 255. */
  colours: Uint8Array;
  /** Diameter of each point in CSS pixels; 0 hides it. */
  sizes: Float32Array;
}

export interface AxisLine {
  direction: 0 | 1 | 2;
  /** Dashed where z falls with the square of the coordinate, dotted for a linear direction. */
  stroke: "solid" | "dashed" | "dotted";
  colour: Rgb;
  label: string;
}

/** Σ(quadratic·s² + linear·s) = level, with s from the origin of the axes. */
export interface Surface {
  quadratic: Rgb;
  linear: Rgb;
  level: number;
  tint: Rgb;
}

export class NoWebGl extends Error {}

type Program = { program: WebGLProgram; at: Record<string, WebGLUniformLocation | null> };

const AXIS_REACH = 1.12;
/** Dashes per unit of length. */
const DASHES = { solid: 0, dashed: 14, dotted: 42 };
const UNIFORMS =
  "rotation aspect shift zoom eye flat2d progress pixels ring ink dim quadratic linear start halfslope c far tint bound middle".split(" ");

export class Scatter {
  readonly canvas: HTMLCanvasElement;
  readonly camera: Camera;
  readonly flat: boolean;
  ink: Rgb = [0, 0, 0];
  onDraw: () => void = () => {};
  private readonly gl: WebGL2RenderingContext;
  private readonly points: Program;
  private readonly lines: Program;
  private readonly surfaces: Program;
  private readonly buffers: Record<"before" | "after" | "colours" | "sizes" | "marks" | "lines" | "quad", WebGLBuffer>;
  private cloud: Cloud = { positions: new Float32Array(), colours: new Uint8Array(), sizes: new Float32Array() };
  private former: Float32Array = new Float32Array();
  private progress = 1;
  private axes: AxisLine[] = [];
  private surface: Surface | null = null;
  private marked: number[] = [];
  private dim = 1;
  private frame = 0;
  private origin: Rgb = [0, 0, 0];
  private lineVertices = 0;
  private readonly forget: () => void;

  constructor(canvas: HTMLCanvasElement, camera: Camera, flat: boolean) {
    // No multisampling: software GL would be two to three times as slow, and the points smooth their own edges.
    const gl = canvas.getContext("webgl2", {
      antialias: false,
      premultipliedAlpha: true,
      preserveDrawingBuffer: false,
    });
    if (!gl) throw new NoWebGl("this browser offers no WebGL2");
    this.gl = gl;
    this.canvas = canvas;
    this.camera = camera;
    this.flat = flat;
    this.points = linked(gl, POINT_VERTEX, POINT_FRAGMENT);
    this.lines = linked(gl, LINE_VERTEX, LINE_FRAGMENT);
    this.surfaces = linked(gl, SURFACE_VERTEX, SURFACE_FRAGMENT);
    const names = ["before", "after", "colours", "sizes", "marks", "lines", "quad"] as const;
    this.buffers = Object.fromEntries(names.map((name) => [name, gl.createBuffer()])) as typeof this.buffers;
    this.fill("quad", Float32Array.of(-1, -1, 1, -1, -1, 1, 1, 1));
    const forgetCamera = camera.onChange(() => this.redraw());
    // Browsers load a font when its first glyph is drawn (λ needs the Greek one) and do not repaint canvases afterwards.
    const redraw = () => this.redraw();
    document.fonts.addEventListener("loadingdone", redraw);
    this.forget = () => {
      forgetCamera();
      document.fonts.removeEventListener("loadingdone", redraw);
    };
  }

  close(): void {
    this.forget();
    cancelAnimationFrame(this.frame);
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  /** Shows a cloud; with a duration in ms, points glide from their current positions. */
  show(cloud: Cloud, duration = 0): void {
    const same = cloud.positions.length === this.cloud.positions.length;
    this.former = duration > 0 && same ? this.now() : cloud.positions;
    this.cloud = cloud;
    this.fill("before", this.former);
    this.fill("after", cloud.positions);
    this.fill("colours", cloud.colours);
    this.fill("sizes", cloud.sizes);
    this.progress = duration > 0 && same ? 0 : 1;
    if (this.progress < 1) this.glide(performance.now(), duration);
    this.redraw();
  }

  /** Axes through a point of the frame, from which the surface is measured too. */
  setAxes(axes: AxisLine[], origin: Rgb): void {
    this.axes = axes;
    this.origin = origin;
    const vertices = axes.flatMap((axis) => lineOf(axis, origin));
    this.lineVertices = vertices.length / 8;
    this.fill("lines", Float32Array.from(vertices));
    this.redraw();
  }

  setSurface(surface: Surface | null): void {
    this.surface = surface;
    this.redraw();
  }

  /** Rings some points; when `alone`, the others fade. */
  mark(points: number[], alone = false): void {
    this.marked = points;
    this.dim = alone && points.length ? 0.16 : 1;
    this.redraw();
  }

  redraw(): void {
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }

  /** Screen position of a point of the cloud in CSS pixels, and how near it is. */
  place(at: ArrayLike<number>): { x: number; y: number; near: number } {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const side = Math.min(width, height) / 2;
    const { zoom, shift } = this.camera;
    let [x, y, near] = [at[0], at[1], 1];
    if (!this.flat) {
      const r = rotationMatrix(this.camera.rotation);
      x = r[0] * at[0] + r[3] * at[1] + r[6] * at[2];
      y = r[1] * at[0] + r[4] * at[1] + r[7] * at[2];
      near = EYE / (EYE - (r[2] * at[0] + r[5] * at[1] + r[8] * at[2]));
    }
    return {
      x: width / 2 + (x * near * zoom + shift[0]) * side * this.fit(),
      y: height / 2 - (y * near * zoom + shift[1]) * side * this.fit(),
      near,
    };
  }

  placeOf(point: number): { x: number; y: number; near: number } {
    return this.place(this.cloud.positions.subarray(3 * point, 3 * point + 3));
  }

  /** The nearest visible point under the pointer, or −1. */
  pick(x: number, y: number, reach = 12): number {
    let best = -1;
    let least = Infinity;
    for (let point = 0; point < this.cloud.sizes.length; point++) {
      if (this.cloud.sizes[point] <= 0) continue;
      const at = this.placeOf(point);
      const distance = Math.hypot(at.x - x, at.y - y);
      // Of two points under the pointer, the one in front.
      if (distance > Math.max(reach, this.cloud.sizes[point] / 2)) continue;
      const cost = distance - 6 * at.near;
      if (cost < least) [best, least] = [point, cost];
    }
    return best;
  }

  /** Where the positive end of each axis is on screen, and the direction in which it points there. */
  axisEnds(): { axis: AxisLine; x: number; y: number; right: number; down: number }[] {
    const from = this.place(this.origin);
    return this.axes.map((axis) => {
      const end = [...this.origin];
      end[axis.direction] = AXIS_REACH;
      const { x, y } = this.place(end);
      const length = Math.hypot(x - from.x, y - from.y) || 1;
      return { axis, x, y, right: (x - from.x) / length, down: (y - from.y) / length };
    });
  }

  /** Draws at once, so that the canvas can be read before the browser clears it. */
  draw(): void {
    const gl = this.gl;
    this.resize();
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    if (this.flat) gl.disable(gl.DEPTH_TEST);
    else gl.enable(gl.DEPTH_TEST);
    this.drawLines();
    this.drawPoints();
    if (this.surface) this.drawSurface(this.surface);
    this.drawMarks();
    this.onDraw();
  }

  private fit(): number {
    return this.flat ? 0.94 : 0.76;
  }

  private now(): Float32Array {
    return this.cloud.positions.map((to, i) => this.former[i] + (to - this.former[i]) * this.progress);
  }

  private glide(start: number, duration: number): void {
    const target = this.cloud;
    const step = (time: number) => {
      if (target !== this.cloud) return;
      const t = Math.min(1, Math.max(0, (time - start) / duration));
      this.progress = t * t * (3 - 2 * t);
      this.redraw();
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  private resize(): void {
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.max(1, Math.round(this.canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * scale));
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
  }

  private use(program: Program): void {
    const gl = this.gl;
    const { width, height } = this.canvas;
    const side = Math.min(width, height);
    gl.useProgram(program.program);
    gl.uniformMatrix3fv(program.at.rotation, false, rotationMatrix(this.camera.rotation));
    gl.uniform2f(program.at.aspect, (side / width) * this.fit(), (side / height) * this.fit());
    gl.uniform2f(program.at.shift, this.camera.shift[0], this.camera.shift[1]);
    gl.uniform1f(program.at.zoom, this.camera.zoom);
    gl.uniform1f(program.at.eye, EYE);
    gl.uniform1f(program.at.flat2d, this.flat ? 1 : 0);
  }

  private drawPoints(): void {
    const gl = this.gl;
    this.use(this.points);
    gl.uniform1f(this.points.at.progress, this.progress);
    gl.uniform1f(this.points.at.pixels, this.canvas.width / Math.max(1, this.canvas.clientWidth));
    gl.uniform1f(this.points.at.ring, 0);
    gl.uniform1f(this.points.at.dim, this.dim);
    this.attribute(0, "before", 3, gl.FLOAT);
    this.attribute(1, "after", 3, gl.FLOAT);
    this.attribute(2, "colours", 4, gl.UNSIGNED_BYTE);
    this.attribute(3, "sizes", 1, gl.FLOAT);
    gl.drawArrays(gl.POINTS, 0, this.cloud.sizes.length);
  }

  private drawMarks(): void {
    if (!this.marked.length) return;
    const gl = this.gl;
    const rows = this.marked.flatMap((i) => [
      ...this.cloud.positions.subarray(3 * i, 3 * i + 3),
      this.cloud.sizes[i] || 6,
    ]);
    this.fill("marks", Float32Array.from(rows));
    this.use(this.points);
    gl.disable(gl.DEPTH_TEST);
    gl.uniform1f(this.points.at.progress, 1);
    gl.uniform1f(this.points.at.pixels, this.canvas.width / Math.max(1, this.canvas.clientWidth));
    gl.uniform1f(this.points.at.ring, 1);
    gl.uniform1f(this.points.at.dim, 1);
    gl.uniform3f(this.points.at.ink, ...this.ink);
    this.attribute(0, "marks", 3, gl.FLOAT, 16, 0);
    this.attribute(1, "marks", 3, gl.FLOAT, 16, 0);
    gl.disableVertexAttribArray(2);
    gl.vertexAttrib4f(2, ...this.ink, 1);
    this.attribute(3, "marks", 1, gl.FLOAT, 16, 12);
    gl.drawArrays(gl.POINTS, 0, this.marked.length);
  }

  private drawLines(): void {
    if (!this.lineVertices) return;
    const gl = this.gl;
    this.use(this.lines);
    this.attribute(0, "lines", 3, gl.FLOAT, 32, 0);
    this.attribute(1, "lines", 4, gl.FLOAT, 32, 12);
    this.attribute(2, "lines", 1, gl.FLOAT, 32, 28);
    gl.disableVertexAttribArray(3);
    gl.drawArrays(gl.LINES, 0, this.lineVertices);
  }

  private drawSurface({ quadratic, linear, level, tint }: Surface): void {
    const gl = this.gl;
    this.use(this.surfaces);
    gl.depthMask(false);
    gl.uniform3f(this.surfaces.at.quadratic, ...quadratic);
    gl.uniform3f(this.surfaces.at.linear, ...linear);
    const turn = rotationMatrix(this.camera.rotation);
    const start = this.origin.map((part, i) => EYE * turn[3 * i + 2] - part) as Rgb;
    const halfslope = start.map((part, i) => quadratic[i] * part + linear[i] / 2) as Rgb;
    const c = start.reduce((sum, part, i) => sum + (quadratic[i] * part + linear[i]) * part, -level);
    gl.uniform3f(this.surfaces.at.start, ...start);
    gl.uniform3f(this.surfaces.at.halfslope, ...halfslope);
    gl.uniform1f(this.surfaces.at.c, c);
    gl.uniform3f(this.surfaces.at.tint, ...tint);
    gl.uniform3f(this.surfaces.at.middle, ...this.origin);
    gl.uniform1f(this.surfaces.at.bound, SURFACE_BOUND);
    for (const other of [1, 2, 3]) gl.disableVertexAttribArray(other);
    this.attribute(0, "quad", 2, gl.FLOAT);
    for (const far of [1, 0]) {
      gl.uniform1f(this.surfaces.at.far, far);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
    gl.depthMask(true);
  }

  private attribute(
    at: number,
    name: keyof Scatter["buffers"],
    size: number,
    type: number,
    stride = 0,
    from = 0,
  ): void {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, type, type === gl.UNSIGNED_BYTE, stride, from);
  }

  private fill(name: keyof Scatter["buffers"], content: Float32Array | Uint8Array): void {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, content as Float32Array<ArrayBuffer>, gl.DYNAMIC_DRAW);
  }
}

/** Vertices of a line through the origin in both directions: the square of a coordinate does not know its sign. */
function lineOf({ direction, stroke, colour }: AxisLine, origin: Rgb): number[] {
  const vertex = (end: number) => {
    const at = [...origin];
    at[direction] = end * AXIS_REACH;
    return [...at, ...colour, 0.9, stroke === "solid" ? -1 : (end + 1) * DASHES[stroke]];
  };
  return [...vertex(-1), ...vertex(1)];
}

function linked(gl: WebGL2RenderingContext, vertex: string, fragment: string): Program {
  const program = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ] as const) {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS))
      throw new NoWebGl(gl.getShaderInfoLog(shader) ?? "no shader");
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS))
    throw new NoWebGl(gl.getProgramInfoLog(program) ?? "no program");
  return { program, at: Object.fromEntries(UNIFORMS.map((name) => [name, gl.getUniformLocation(program, name)])) };
}
