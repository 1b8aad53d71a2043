// The server behind a live viewer: questions, their progress, and answers. A static site has none.
import { SiteError } from "./site.ts";

export interface TokenLatent {
  latent: number;
  label: string;
  value: number;
  quantile: number | null;
  share: number;
  strength: number;
}

export interface ExplainedToken {
  text: string;
  token_id: number;
  dropped: string | null;
  latents: TokenLatent[];
}

export interface Firing {
  token: number;
  value: number;
  quantile: number | null;
  share: number;
  strength: number;
}

export interface TextLatent {
  latent: number;
  label: string;
  strength: number;
  firings: Firing[];
}

export interface Explanation {
  text: string;
  tokens: ExplainedToken[];
  latents: TextLatent[];
  ranking: string;
  notes: string[];
}

/** The tokens of a text in the frame of one latent. */
export interface Stars {
  words: string[];
  /** Which words the rows belong to: dropped tokens have none. */
  tokens: number[];
  values: number[];
  /** One list per axis. */
  coordinates: number[][];
  linear: number[];
  control: number[][];
}

export interface Steered {
  plain: string;
  steered: string;
  next: { text: string; plain: number; steered: number }[];
  /** Bits by which the next token's distribution moved. */
  divergence: number;
}

export interface Answers {
  explain: Explanation;
  stars: Stars;
  steer: Steered;
}

export type Progress = { state: "waiting"; ahead: number } | { state: "running"; done: number; total: number };

/** Whether a server with the language model stands behind this page. */
export function isLive(): boolean {
  return document.querySelector('meta[name="quadric-live"]') !== null;
}

/** Asks the server; an aborted signal hangs up, and the server stops its work. */
export async function ask<M extends keyof Answers>(
  method: M,
  question: object,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Answers[M]> {
  let response: Response;
  try {
    response = await fetch(`api/${method}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
      signal,
    });
  } catch (problem) {
    if (signal.aborted) throw problem;
    throw new SiteError("The server does not respond", "The question could not be sent.", "Is quadric view --live still running?");
  }
  for await (const line of linesOf(response.body!)) {
    const message = JSON.parse(line);
    if (message.state === "done") return message.answer;
    if (message.state === "failed") throw new Error(message.message);
    onProgress(message);
  }
  throw new SiteError("The answer was cut short", "The server closed the connection.", "Is quadric view --live still running?");
}

/** Lines of a stream of UTF-8, as they arrive. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) yield line;
    if (done) break;
  }
  if (rest) yield rest;
}

/** Progress in words. */
export function progressText(progress: Progress | null): string {
  if (!progress) return "asking …";
  if (progress.state === "waiting")
    return `waiting for the language model: ${progress.ahead} ${progress.ahead === 1 ? "request" : "requests"} before this one`;
  return progress.total ? `${progress.done} of ${progress.total} tokens …` : "reading …";
}
