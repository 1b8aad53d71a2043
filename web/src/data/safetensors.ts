// Gzip'd safetensors and byte planes, as quadric/viewer/encoding.py writes them.

export interface Tensor {
  shape: number[];
  data: Uint8Array | Float32Array | Int32Array;
}
export type Tensors = Map<string, Tensor>;

const WIDTHS: Record<string, number> = { U8: 1, F32: 4, I32: 4 };

/** Undoes gzip, unless the server has done it already, as the first bytes tell. */
export async function gunzip(content: ArrayBuffer): Promise<ArrayBuffer> {
  const start = new Uint8Array(content, 0, Math.min(2, content.byteLength));
  if (start[0] !== 0x1f || start[1] !== 0x8b) return content;
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The tensors of a safetensors file; throws on anything cut short or malformed. */
export function parseTensors(content: ArrayBuffer): Tensors {
  if (content.byteLength < 8) throw new Error(`${content.byteLength} bytes are too few for a header`);
  const headerLength = Number(new DataView(content).getBigUint64(0, true));
  if (headerLength > content.byteLength - 8) throw new Error("the header is cut short");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, headerLength)));
  const tensors: Tensors = new Map();
  for (const [name, entry] of Object.entries<any>(header)) {
    if (name === "__metadata__") continue;
    const [from, to] = entry.data_offsets;
    const width = WIDTHS[entry.dtype];
    if (!width) throw new Error(`${name} has the unknown type ${entry.dtype}`);
    if (8 + headerLength + to > content.byteLength) throw new Error(`${name} is cut short`);
    const bytes = content.slice(8 + headerLength + from, 8 + headerLength + to);
    if (bytes.byteLength % width) throw new Error(`${name} has a broken length`);
    const data =
      entry.dtype === "U8"
        ? new Uint8Array(bytes)
        : entry.dtype === "F32"
          ? new Float32Array(bytes)
          : new Int32Array(bytes);
    tensors.set(name, { shape: entry.shape, data });
  }
  return tensors;
}

export function floats(tensors: Tensors, name: string): Float32Array {
  return typed(tensors, name, Float32Array);
}

export function integers(tensors: Tensors, name: string): Int32Array {
  return typed(tensors, name, Int32Array);
}

function typed<T>(tensors: Tensors, name: string, kind: { new (n: number): T }): T {
  const tensor = tensors.get(name);
  if (!tensor || !(tensor.data instanceof (kind as any))) throw new Error(`${name} is missing or of another type`);
  return tensor.data as T;
}

/** Non-negative integers from byte planes (planes, n), lowest byte first. */
export function wholeNumbers(tensors: Tensors, name: string): Uint32Array {
  const { planes, count, bytes } = planesOf(tensors, name);
  const numbers = new Uint32Array(count);
  for (let plane = 0; plane < planes; plane++)
    for (let i = 0; i < count; i++) numbers[i] += bytes[plane * count + i] * 2 ** (8 * plane);
  return numbers;
}

/** Rows of signed planes (planes, rows, n), each times its scale over the largest integer of that width. */
export function scaledRows(tensors: Tensors, name: string, scales: Float32Array): Float32Array[] {
  const { planes, count, bytes } = planesOf(tensors, name);
  const rows = scales.length;
  const length = rows ? count / rows : 0;
  const half = 2 ** (8 * planes - 1);
  return Array.from(scales, (scale, row) => {
    const values = new Float32Array(length);
    for (let i = 0; i < length; i++) {
      let whole = 0;
      for (let plane = 0; plane < planes; plane++) whole += bytes[plane * count + row * length + i] * 2 ** (8 * plane);
      values[i] = (scale * (whole >= half ? whole - 2 * half : whole)) / (half - 1);
    }
    return values;
  });
}

function planesOf(tensors: Tensors, name: string) {
  const tensor = tensors.get(name);
  if (!tensor || !(tensor.data instanceof Uint8Array)) throw new Error(`${name} is missing or of another type`);
  const planes = tensor.shape[0];
  return { planes, count: planes ? tensor.data.length / planes : 0, bytes: tensor.data };
}
