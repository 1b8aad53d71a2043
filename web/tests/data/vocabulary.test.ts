import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJointly, visible, Vocabulary } from "../../src/data/vocabulary.ts";

const bytes = (...numbers: number[]) => Uint8Array.from(numbers);
const text = (word: string) => new TextEncoder().encode(word);

test("a character belongs to the token in which it begins", () => {
  assert.deepEqual(decodeJointly([bytes(0x63, 0xc3), bytes(0xa9, 0x21)]), ["cé", "!"]);
  assert.deepEqual(decodeJointly([bytes(0xf0, 0x9f), bytes(0x98), bytes(0x80)]), ["😀", "", ""]);
});

test("bytes that make no character are shown as bytes", () => {
  assert.deepEqual(decodeJointly([bytes(0xff, 0x61)]), ["⟨FF⟩a"]);
  assert.deepEqual(decodeJointly([bytes(0xc3)]), ["⟨C3⟩"]);
  assert.deepEqual(decodeJointly([bytes(0xe2, 0x28, 0xa1)]), ["⟨E2⟩(⟨A1⟩"]);
});

test("overlong and surrogate encodings are no characters", () => {
  assert.deepEqual(decodeJointly([bytes(0xc0, 0xaf)]), ["⟨C0⟩⟨AF⟩"]);
  assert.deepEqual(decodeJointly([bytes(0xed, 0xa0, 0x80)]), ["⟨ED⟩⟨A0⟩⟨80⟩"]);
});

test("nothing invisible stays so", () => {
  assert.equal(visible("a\u202eb\u0000\n"), "a⟨U+202E⟩b⟨U+0000⟩⏎");
  assert.equal(visible("<b>&amp;"), "<b>&amp;");
  assert.equal(visible("naïve 中文 עברית"), "naïve 中文 עברית");
});

test("a vocabulary finds equal tokens before those that begin so, before those that contain it", () => {
  const words = [" unlike", " like", " likely", "Like"];
  const all = words.map(text);
  const vocabulary = new Vocabulary(
    Uint8Array.from(all.flatMap((word) => [...word])),
    Uint32Array.from(all, (word) => word.length),
  );
  assert.deepEqual(
    vocabulary.find("like").map((token) => words[token]),
    [" like", "Like", " likely", " unlike"],
  );
  assert.deepEqual(vocabulary.find("  "), []);
  assert.throws(() => new Vocabulary(bytes(1, 2), Uint32Array.of(3)));
});
