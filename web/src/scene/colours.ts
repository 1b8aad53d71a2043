// Colours that remain distinct under common colour-vision deficiencies, for each theme.
import type { Rgb } from "./scatter.ts";

export type Theme = "light" | "dark";
export const COLOURINGS = ["activation", "sign", "token", "position", "cluster"] as const;
export type Colouring = (typeof COLOURINGS)[number];

interface Palette {
  ink: Rgb;
  quiet: Rgb;
  positive: Rgb;
  negative: Rgb;
  axis: Rgb;
  surface: Rgb;
  /** Okabe and Ito's hues, lightened or darkened for the background. */
  categories: Rgb[];
  sequence: Rgb[];
}

const hex = (code: string): Rgb => [1, 3, 5].map((at) => parseInt(code.slice(at, at + 2), 16) / 255) as Rgb;

export const PALETTES: Record<Theme, Palette> = {
  light: {
    ink: hex("#1b1a20"),
    quiet: hex("#b9b5ad"),
    positive: hex("#c2570c"),
    negative: hex("#1f5fbf"),
    axis: hex("#6d6a75"),
    surface: hex("#5b4bb5"),
    categories: ["#0072b2", "#d55e00", "#009e73", "#b3558f", "#b8860b", "#3d8fc4", "#7a5230", "#4d4d4d"].map(hex),
    sequence: ["#3b2f80", "#2b6c9e", "#1e9a8a", "#7bb648", "#d9a514"].map(hex),
  },
  dark: {
    ink: hex("#f3f1ec"),
    quiet: hex("#5d5c66"),
    positive: hex("#ff9a4d"),
    negative: hex("#6cabff"),
    axis: hex("#9c99a6"),
    surface: hex("#a99bff"),
    categories: ["#56b4e9", "#ff8c42", "#2fcf9f", "#e38fc4", "#f0c93a", "#8fb8ff", "#cfa07a", "#d0d0d0"].map(hex),
    sequence: ["#6a5bd6", "#4a9bd1", "#3cc4b0", "#a5d765", "#ffd24a"].map(hex),
  },
};

export function mix(a: Rgb, b: Rgb, t: number): Rgb {
  return a.map((part, i) => part + (b[i] - part) * t) as Rgb;
}

export function css(colour: Rgb): string {
  return `rgb(${colour.map((part) => Math.round(part * 255)).join(" ")})`;
}

/** A point on the sequential scale, t from 0 to 1. */
export function alongSequence(theme: Theme, t: number): Rgb {
  const { sequence } = PALETTES[theme];
  const at = Math.min(1, Math.max(0, t)) * (sequence.length - 1);
  const from = Math.min(sequence.length - 2, Math.floor(at));
  return mix(sequence[from], sequence[from + 1], at - from);
}

/** Grey at rest, towards orange above and blue below; the root keeps weak activations distinguishable. */
export function ofActivation(theme: Theme, value: number, largest: number): Rgb {
  const palette = PALETTES[theme];
  const strength = largest > 0 ? Math.min(1, Math.abs(value) / largest) : 0;
  return mix(palette.quiet, value >= 0 ? palette.positive : palette.negative, Math.sqrt(strength));
}

/** Colour of a cluster: the largest ones have a hue each, further ones and points in none share grey. */
export function ofCluster(theme: Theme, cluster: number): Rgb {
  return PALETTES[theme].categories[cluster] ?? PALETTES[theme].quiet;
}

/** Ranks of the tokens with the largest share of Σ(z − rest)²: the first seven get a hue, the rest share grey. */
export function strongest(tokens: ArrayLike<number>, values: ArrayLike<number>, most = 7): Map<number, number> {
  const energy = new Map<number, number>();
  for (let i = 0; i < tokens.length; i++) energy.set(tokens[i], (energy.get(tokens[i]) ?? 0) + values[i] ** 2);
  const ranked = [...energy].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, most);
  return new Map(ranked.map(([token], rank) => [token, rank]));
}
