// Numbers, names of axes and long texts as short text.

/** At most so many characters, with an ellipsis where some are left out. */
export function shortened(text: string, most: number): string {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}

export function axisName(eigenvector: number | null, lambda: number): string {
  return eigenvector === null ? "random direction" : `λ${subscript(eigenvector + 1)} = ${signed(lambda)}`;
}

export function signed(value: number, digits = 2): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(digits)}`;
}

function subscript(number: number): string {
  return String(number).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]);
}
