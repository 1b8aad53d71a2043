// Tokens are raw bytes: a character may span several of them, and their text is untrusted.

const decoder = new TextDecoder("utf-8", { fatal: true });
// Controls, bidirectional overrides, zero-width marks and other code points that would hide or reorder text.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\u2028\u2029]/gu;
const NAMED: Record<string, string> = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00ad": "‧", "\u200b": "∅", "\u200d": "∅" };

/** Text safe to draw: invisible characters become visible, so that no token can hide or reverse its neighbours. */
export function visible(text: string): string {
  return text.replace(
    INVISIBLE,
    (mark) => NAMED[mark] ?? `⟨U+${mark.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** Length of the UTF-8 character that a byte begins; 0 for a byte that begins none. */
function lengthFrom(byte: number): number {
  if (byte < 0x80) return 1;
  if (byte >= 0xc2 && byte < 0xe0) return 2;
  if (byte >= 0xe0 && byte < 0xf0) return 3;
  return byte >= 0xf0 && byte < 0xf5 ? 4 : 0;
}

/** Decode consecutive tokens together: a character belongs to the token in which it begins. */
export function decodeJointly(tokens: Uint8Array[]): string[] {
  const owner: number[] = [];
  const bytes: number[] = [];
  tokens.forEach((token, index) => token.forEach((byte) => (bytes.push(byte), owner.push(index))));
  const texts = tokens.map(() => "");
  for (let i = 0; i < bytes.length;) {
    const { character, length } = characterAt(bytes, i);
    texts[owner[i]] += character;
    i += length;
  }
  return texts.map(visible);
}

function characterAt(bytes: number[], at: number): { character: string; length: number } {
  const length = lengthFrom(bytes[at]);
  if (length && at + length <= bytes.length)
    try {
      return { character: decoder.decode(Uint8Array.from(bytes.slice(at, at + length))), length };
    } catch {
      // not a valid character: show the byte
    }
  return { character: `⟨${bytes[at].toString(16).toUpperCase().padStart(2, "0")}⟩`, length: 1 };
}

/** The vocabulary of a text; tokens are decoded on first use. */
export class Vocabulary {
  readonly size: number;
  private readonly bytes: Uint8Array;
  private readonly ends: Uint32Array;
  private readonly alone = new Map<number, string>();

  constructor(bytes: Uint8Array, lengths: Uint32Array) {
    this.bytes = bytes;
    this.size = lengths.length;
    let end = 0;
    this.ends = lengths.map((length) => (end += length));
    if (end !== bytes.length) throw new Error(`tokens of ${end} bytes in all, but ${bytes.length} bytes`);
  }

  raw(token: number): Uint8Array {
    return this.bytes.subarray(token ? this.ends[token - 1] : 0, this.ends[token]);
  }

  /** A token on its own; bytes that are part of a character only are shown as such. */
  text(token: number): string {
    let text = this.alone.get(token);
    if (text === undefined) this.alone.set(token, (text = decodeJointly([this.raw(token)])[0]));
    return text;
  }

  /** Consecutive tokens, read together. */
  texts(tokens: ArrayLike<number>): string[] {
    return decodeJointly(Array.from(tokens, (token) => this.raw(token)));
  }

  /** Tokens whose text fits a query: equal first, then beginning with it, then containing it; commonest first. */
  find(query: string, most = 12): number[] {
    const wanted = query.trim().toLowerCase();
    if (!wanted) return [];
    const tiers: number[][] = [[], [], []];
    for (let token = 0; token < this.size; token++) {
      const text = this.text(token).trim().toLowerCase();
      if (text === wanted) tiers[0].push(token);
      else if (text.startsWith(wanted)) tiers[1].push(token);
      else if (text.includes(wanted)) tiers[2].push(token);
    }
    return tiers.flat().slice(0, most);
  }
}
