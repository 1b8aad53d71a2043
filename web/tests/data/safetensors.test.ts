import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { floats, gunzip, parseTensors, scaledRows, wholeNumbers } from "../../src/data/safetensors.ts";

function file(tensors: Record<string, { dtype: string; shape: number[]; bytes: number[] }>): ArrayBuffer {
  const header: Record<string, unknown> = {};
  const body: number[] = [];
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [body.length, body.length + bytes.length] };
    body.push(...bytes);
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const whole = new Uint8Array(8 + text.length + body.length);
  new DataView(whole.buffer).setBigUint64(0, BigInt(text.length), true);
  whole.set(text, 8);
  whole.set(body, 8 + text.length);
  return whole.buffer;
}

test("a tensor keeps its numbers whatever its alignment", () => {
  const one = [...new Uint8Array(Float32Array.of(1.5, -2).buffer)];
  const tensors = parseTensors(
    file({ odd: { dtype: "U8", shape: [3], bytes: [1, 2, 3] }, x: { dtype: "F32", shape: [2], bytes: one } }),
  );
  assert.deepEqual([...floats(tensors, "x")], [1.5, -2]);
});

test("planes come back as whole numbers, beyond 2^31 too", () => {
  const tensors = parseTensors(file({ n: { dtype: "U8", shape: [4, 2], bytes: [1, 0, 2, 0, 0, 0, 0, 255] } }));
  assert.deepEqual([...wholeNumbers(tensors, "n")], [513, 4278190080]);
});

test("signed rows take their scale", () => {
  const tensors = parseTensors(file({ r: { dtype: "U8", shape: [1, 2, 2], bytes: [127, 0x81, 0, 64] } }));
  const [first, second] = scaledRows(tensors, "r", Float32Array.of(2, 127));
  assert.deepEqual([...first], [2, -2]);
  assert.deepEqual([...second], [0, 64]);
});

test("a file that is cut short anywhere is an error, not garbage", () => {
  const whole = file({ x: { dtype: "F32", shape: [2], bytes: [0, 0, 0, 0, 0, 0, 0, 0] } });
  for (let length = 0; length < whole.byteLength; length++) assert.throws(() => parseTensors(whole.slice(0, length)));
  parseTensors(whole);
});

test("a missing tensor is named", () => {
  assert.throws(() => floats(new Map(), "values"), /values is missing/);
});

test("gzip is undone, what was already undone is left, what is cut short is refused", async () => {
  const plain = new TextEncoder().encode("hello");
  const packed = new Uint8Array(gzipSync(plain));
  assert.deepEqual(new Uint8Array(await gunzip(packed.buffer)), plain);
  assert.deepEqual(new Uint8Array(await gunzip(plain.buffer)), plain);
  await assert.rejects(gunzip(packed.slice(0, 12).buffer));
});
