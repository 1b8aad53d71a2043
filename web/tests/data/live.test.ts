import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf, progressText } from "../../src/data/live.ts";

test("lines are read whole, however the bytes arrive", async () => {
  const bytes = new TextEncoder().encode('{"a": "é"}\n\n{"b": 2}\n{"c": 3}');
  for (const size of [1, 3, 1000]) {
    const stream = new ReadableStream<Uint8Array>({
      start(control) {
        for (let at = 0; at < bytes.length; at += size) control.enqueue(bytes.slice(at, at + size));
        control.close();
      },
    });
    const found = [];
    for await (const line of linesOf(stream)) found.push(JSON.parse(line));
    assert.deepEqual(found, [{ a: "é" }, { b: 2 }, { c: 3 }]);
  }
});

test("progress is said in words", () => {
  assert.equal(progressText(null), "asking …");
  assert.equal(progressText({ state: "waiting", ahead: 1 }), "waiting for the language model: 1 request before this one");
  assert.equal(progressText({ state: "running", done: 3, total: 40 }), "3 of 40 tokens …");
  assert.equal(progressText({ state: "running", done: 0, total: 0 }), "reading …");
});
