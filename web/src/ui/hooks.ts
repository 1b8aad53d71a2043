import { useEffect, useRef, useState } from "preact/hooks";
import type { Camera } from "../scene/camera.ts";
import type { Theme } from "../scene/colours.ts";
import type { LatentRoute, MapRoute } from "./route.ts";

export interface Loaded<T> {
  value: T | null;
  error: unknown;
}

/** Loads when the key changes; a result for a former key is dropped. */
export function useLoaded<T>(key: string, load: () => Promise<T> | null): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { key: string }>({ key: "", value: null, error: null });
  useEffect(() => {
    let current = true;
    load()?.then(
      (value) => current && setState({ key, value, error: null }),
      (error: unknown) => current && setState({ key, value: null, error }),
    );
    return () => {
      current = false;
    };
  }, [key]);
  return state.key === key ? state : { value: null, error: null };
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const listen = () => setMatches(media.matches);
    media.addEventListener("change", listen);
    listen();
    return () => media.removeEventListener("change", listen);
  }, [query]);
  return matches;
}

export type ThemeChoice = Theme | "system";
const STORED = "quadric-theme";

/** The theme in use: the reader's choice, or else the system's. */
export function useTheme(): { theme: Theme; choice: ThemeChoice; choose: (choice: ThemeChoice) => void } {
  const dark = useMedia("(prefers-color-scheme: dark)");
  const [choice, setChoice] = useState<ThemeChoice>(storedChoice);
  const theme = choice === "system" ? (dark ? "dark" : "light") : choice;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const choose = (next: ThemeChoice) => {
    setChoice(next);
    try {
      localStorage.setItem(STORED, next);
    } catch {
      // private windows may refuse storage; the choice then lasts as long as the page
    }
  };
  return { theme, choice, choose };
}

function storedChoice(): ThemeChoice {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}

/** The size of an element in CSS pixels, kept up to date. */
export function useSize<E extends HTMLElement>(): [{ current: E | null }, { width: number; height: number }] {
  const element = useRef<E>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize({ width: Math.round(width), height: Math.round(height) });
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, size];
}

/**
 * Sets the camera from the address, again for every subject; the returned function writes the camera to the address once
 * it is at rest.
 *
 * The address holds rounded numbers. The camera takes them over before they are written, so that the picture does not
 * move by part of a pixel afterwards and a link shows exactly what was seen.
 */
export function useKeptCamera<R extends LatentRoute | MapRoute>(
  camera: Camera,
  route: R,
  go: (route: R, remember: boolean) => void,
  subject?: unknown,
): () => void {
  const timer = useRef(0);
  const latest = useRef(route);
  latest.current = route;
  useEffect(() => camera.restore(route.camera), [route.camera?.join(), subject]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      const numbers = camera.numbers();
      camera.restore(numbers);
      go({ ...latest.current, camera: numbers }, false);
    }, 250);
  };
}

/** Wraps an action so that the camera is written to the address afterwards. */
export const keeping = (keep: () => void) => (action: () => void) => () => {
  action();
  keep();
};

/** Keys that zoom any picture. */
export function zoomKeys(camera: Camera, keep: () => void): Record<string, () => void> {
  const kept = keeping(keep);
  const closer = kept(() => camera.zoomBy(1.2));
  return { "+": closer, "=": closer, "-": kept(() => camera.zoomBy(1 / 1.2)), "0": kept(() => camera.reset()) };
}

/** Handles single keys, unless the reader is typing. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.closest("input:not([type=range]):not([type=checkbox]), select, textarea, dialog");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const slides = target.matches("input[type=range]") && event.key.startsWith("Arrow");
      const action = slides ? undefined : latest.current[event.key];
      if (!action) return;
      event.preventDefault();
      action(event);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}
