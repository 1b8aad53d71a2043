// Numbers and names of axes as text.

export function axisName(eigenvector: number | null, lambda: number): string {
  return eigenvector === null ? "random direction" : `λ${subscript(eigenvector + 1)} = ${signed(lambda)}`;
}

export function signed(value: number, digits = 2): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(digits)}`;
}

function subscript(number: number): string {
  return String(number).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]);
}
