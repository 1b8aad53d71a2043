// Questions that follow what the reader types: asked after a pause, dropped when the next one comes.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../data/live.ts";
import type { Answers, Progress } from "../data/live.ts";

export interface Asked<T> {
  /** The latest answer; it stays while the next one is on its way. */
  answer: T | null;
  /** Whether a question is on its way. */
  pending: boolean;
  progress: Progress | null;
  error: unknown;
}

const NOTHING = { answer: null, pending: false, progress: null, error: null };

/** Asks whenever the question changes and then rests for `delay` milliseconds; null asks nothing. */
export function useAnswer<M extends keyof Answers>(method: M, question: object | null, delay = 300): Asked<Answers[M]> {
  const [state, setState] = useState<Asked<Answers[M]>>(NOTHING);
  const first = useRef(true);
  const key = question && JSON.stringify(question);
  useEffect(() => {
    if (key === null) {
      setState(NOTHING);
      return;
    }
    const hangUp = new AbortController();
    setState((before) => ({ ...before, pending: true, progress: null, error: null }));
    const send = async () => {
      try {
        const show = (progress: Progress) => setState((before) => ({ ...before, progress }));
        const answer = await ask(method, JSON.parse(key), hangUp.signal, show);
        if (!hangUp.signal.aborted) setState({ answer, pending: false, progress: null, error: null });
      } catch (error) {
        if (!hangUp.signal.aborted) setState({ answer: null, pending: false, progress: null, error });
      }
    };
    const timer = setTimeout(send, first.current ? 0 : delay);
    first.current = false;
    return () => {
      clearTimeout(timer);
      hangUp.abort();
    };
  }, [method, key]);
  return state;
}
