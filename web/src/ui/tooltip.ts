/** Places a tooltip within its parent without crossing the parent's sides. */
export function placeTooltip(element: HTMLElement | null, x: number, y: number): void {
  if (!element?.parentElement) return;
  const room = element.parentElement.clientWidth;
  const half = Math.min(element.offsetWidth / 2, room / 2 - 8);
  element.style.left = `${Math.min(Math.max(half + 8, x), room - half - 8)}px`;
  element.style.top = `${y}px`;
}
