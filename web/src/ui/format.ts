// Numbers, names of axes and long texts as short text.

/** The part of an axis that its name is made of. */
interface AxisKind {
  kind: "eigenvector" | "linear" | "decoder" | "encoder" | "component" | "predictor" | "random";
  rank: number;
  quadratic: number;
  linear: number;
}

/** At most so many characters, with an ellipsis where some are left out. */
export function shortened(text: string, most: number): string {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}

/** A text that begins with a capital letter. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What an axis is, short enough for a picture: its direction, and how z changes along it. */
export function axisName({ kind, rank, quadratic, linear }: AxisKind): string {
  if (kind === "eigenvector") return `v·e${subscript(rank + 1)}, λ = ${signed(quadratic)}`;
  if (kind === "linear") return `linear, slope ${signed(linear)}`;
  if (kind === "decoder") return `decoder, slope ${signed(linear)}`;
  if (kind === "encoder") return `rest of encoder, slope ${signed(linear)}`;
  if (kind === "component") return "principal component";
  return kind === "predictor" ? "best linear direction" : "random direction";
}

/** The same for a table, which has no room for a legend: where the coordinate is measured from. */
export function columnName(axis: AxisKind, origin: string): string {
  return `${axisName(axis)}, from ${origin}`;
}

/** z relative to its rest, e.g. rest + 0.30. */
export function fromRest(step: number, digits = 3): string {
  return `rest ${step < 0 ? "−" : "+"} ${Math.abs(step).toPrecision(digits)}`;
}

/** A share as whole percent; 100 % and 0 % only where it is all or nothing to three digits. */
export function percent(share: number): string {
  const bounded = Math.min(1, Math.max(0, share));
  if (bounded > 0.995 && bounded < 0.9995) return "> 99 %";
  if (bounded > 0.0005 && bounded < 0.005) return "< 1 %";
  return `${Math.round(100 * bounded)} %`;
}

export function signed(value: number, digits = 2): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(digits)}`;
}

function subscript(number: number): string {
  return String(number).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]);
}
