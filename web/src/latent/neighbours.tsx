// Latents with nearly the same axes.
import type { Index, Latent } from "../data/site.ts";
import { LabelText } from "../ui/labels.tsx";

interface Props {
  latent: Latent;
  index: Index;
  versus: number | null;
  address: (latent: number) => string;
  onCompare: (latent: number) => void;
  onHover: (latent: number | null) => void;
}

export function Neighbours({ latent, index, versus, address, onCompare, onHover }: Props) {
  return (
    <ol class="neighbours">
      {latent.neighbours.map((neighbour) => (
        <li
          key={neighbour.latent}
          onPointerEnter={() => onHover(neighbour.latent)}
          onPointerLeave={() => onHover(null)}
          onFocusIn={() => onHover(neighbour.latent)}
          onFocusOut={() => onHover(null)}
        >
          <a href={address(neighbour.latent)}>
            <span class="number">{neighbour.latent}</span>
            <LabelText index={index} latent={neighbour.latent} />
          </a>
          <svg class="overlap" viewBox="0 0 56 6" preserveAspectRatio="none" aria-hidden="true">
            <rect class="whole" width="56" height="6" rx="3" />
            <rect width={56 * neighbour.overlap} height="6" rx="3" />
          </svg>
          <span class="value">{neighbour.overlap.toFixed(2)}</span>
          <button
            type="button"
            class="plain"
            aria-pressed={versus === neighbour.latent}
            aria-label={`Compare with latent ${neighbour.latent}`}
            onClick={() => onCompare(neighbour.latent)}
          >
            Compare
          </button>
        </li>
      ))}
    </ol>
  );
}

/** Overlap of two latents, or the bound that the stored neighbours imply. */
export function overlapOf(latent: Latent, other: Latent): string {
  const found =
    latent.neighbours.find((each) => each.latent === other.latent) ??
    other.neighbours.find((each) => each.latent === latent.latent);
  if (found) return `Subspace overlap ${found.overlap.toFixed(2)}`;
  const least = Math.min(latent.neighbours.at(-1)?.overlap ?? 1, other.neighbours.at(-1)?.overlap ?? 1);
  return `Not among each other's nearest: subspace overlap at most ${least.toFixed(2)}`;
}
