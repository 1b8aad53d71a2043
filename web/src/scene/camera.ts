// The viewpoint: a rotation, a zoom and a shift.

export type Quaternion = [x: number, y: number, z: number, w: number];

export const HOME: Quaternion = normalized([-0.22, 0.34, 0.08, 0.91]);
export const VIEWS: Record<"x" | "y" | "z", Quaternion> = {
  x: normalized([0, -1, 0, 1]),
  y: normalized([1, 0, 0, 1]),
  z: [0, 0, 0, 1],
};
/** Distance of the eye in units of the cloud's radius: enough perspective to tell near from far. */
export const EYE = 4.2;

export class Camera {
  rotation: Quaternion = HOME;
  zoom = 1;
  shift: [number, number] = [0, 0];
  private readonly listeners = new Set<() => void>();

  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  /** Turn by angles about the screen's axes. */
  turn(right: number, down: number): void {
    const yaw = aboutAxis(0, 1, 0, right);
    const pitch = aboutAxis(1, 0, 0, down);
    this.rotation = normalized(times(times(pitch, yaw), this.rotation));
    this.changed();
  }

  zoomBy(factor: number, at: [number, number] = [0, 0]): void {
    const zoom = Math.min(40, Math.max(0.3, this.zoom * factor));
    const ratio = zoom / this.zoom;
    this.shift = [at[0] - (at[0] - this.shift[0]) * ratio, at[1] - (at[1] - this.shift[1]) * ratio];
    this.zoom = zoom;
    this.changed();
  }

  shiftBy(x: number, y: number): void {
    this.shift = [this.shift[0] + x, this.shift[1] + y];
    this.changed();
  }

  look(rotation: Quaternion): void {
    this.rotation = rotation;
    this.changed();
  }

  reset(): void {
    this.rotation = HOME;
    this.zoom = 1;
    this.shift = [0, 0];
    this.changed();
  }

  /** For an address: rotation, zoom and shift, rounded as the address writes them; null at home. */
  numbers(): number[] | null {
    const all = [...this.rotation, this.zoom, ...this.shift].map(rounded);
    const home = [...HOME, 1, 0, 0].map(rounded);
    return all.every((number, i) => number === home[i]) ? null : all;
  }

  restore(numbers: number[] | null): void {
    if (!numbers || numbers.length !== 7 || numbers.some((number) => !Number.isFinite(number))) return this.reset();
    const [x, y, z, w, zoom, right, up] = numbers;
    if (Math.hypot(x, y, z, w) < 1e-6) return this.reset();
    this.rotation = normalized([x, y, z, w]);
    this.zoom = Math.min(40, Math.max(0.3, zoom));
    this.shift = [right, up];
    this.changed();
  }
}

/** Three decimals, but no more than the four digits that an address keeps. */
function rounded(number: number): number {
  return Number((Math.round(number * 1000) / 1000).toPrecision(4));
}

export function aboutAxis(x: number, y: number, z: number, angle: number): Quaternion {
  const half = Math.sin(angle / 2);
  return [x * half, y * half, z * half, Math.cos(angle / 2)];
}

export function times(a: Quaternion, b: Quaternion): Quaternion {
  return [
    a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
    a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0],
    a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3],
    a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
  ];
}

export function normalized(q: Quaternion): Quaternion {
  const size = Math.hypot(...q);
  return q.map((part) => part / size) as Quaternion;
}

/** Column-major 3×3 rotation matrix, as WebGL takes it. */
export function rotationMatrix([x, y, z, w]: Quaternion): Float32Array {
  return Float32Array.of(
    1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),
    2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w),
    2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y),
  ); // prettier-ignore
}
