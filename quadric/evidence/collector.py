"""Everything that one pass gathers about every latent: updated by batches, merged with other parts, saved, restored."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt64
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.autoencoders.io import weights_sha256
from quadric.autoencoders.objective import check_tokens, unit_tokens
from quadric.evidence.contexts import StrongestContexts
from quadric.evidence.firing import BINS_PER_SIGN, FiringSums
from quadric.evidence.record import EvidenceSettings
from quadric.evidence.reservoir import CONTROL_AXES, Block, Reservoir, control_frame, token_counters
from quadric.geometry import Decomposition, leading_axes

Array = np.ndarray

BLOCK_NUMBERS = 1 << 18
"""Values of z that are processed together: few enough to stay in the processor's cache from one step to the next."""

_RESERVOIR = ("keys", "places", "values", "coordinates")
_CONTEXTS = ("strengths", "places", "windows", "coordinates")
_FIRING = ("l1", "l2_squared", "square", "positive_square", "lowest", "highest", "histogram")

DECOMPOSING = 100_000_000
"""Approximate bytes for the eigenvectors of one batch of latents while the axes are computed."""


class Seen(NamedTuple):
    """The tokens scored so far."""

    places: Int64[Array, " n"]
    control: Float32[Array, "n 3"]


class Collector:
    """What one pass has gathered so far.

    Args:
        autoencoder: The autoencoder whose latents are observed.
        settings: How much is kept.
        geometry: The autoencoder's geometry, if it was computed before; then no latent is decomposed for its axes.
    """

    def __init__(
        self, autoencoder: BilinearAutoencoder, settings: EvidenceSettings, geometry: Decomposition | None = None
    ) -> None:
        self.autoencoder, self.settings = autoencoder, settings
        n_latents, n_axes = autoencoder.n_latents, settings.n_axes
        self.axes = leading_axes(autoencoder, n_axes, geometry)
        self.frame = control_frame(autoencoder.d_model, settings.seed)
        self.reservoir = Reservoir(n_latents, settings.n_points, n_axes, settings.epsilon, settings.seed)
        self.contexts = StrongestContexts(n_latents, settings.n_contexts, n_axes)
        self.firing = FiringSums(autoencoder.offset.detach().float().cpu().numpy())
        self._seen: list[Seen] = []

    @property
    def n_tokens(self) -> int:
        return self.firing.n_tokens

    @torch.no_grad()
    def update(self, tokens: Tensor, places: Int64[Array, " n"], windows: UInt64[Array, " n"]) -> None:
        """Score a batch of raw token vectors (n, d), given their places and the hashes of the text around them."""
        check_tokens(tokens, self.autoencoder.d_model)
        unit = unit_tokens(tokens)
        values = self.autoencoder.encode(unit.to(self.autoencoder.left.device)).float().cpu()
        unit = unit.float().cpu()
        counters = token_counters(self.settings.seed, places)
        size = max(1, BLOCK_NUMBERS // len(places))
        for start in range(0, self.autoencoder.n_latents, size):
            latents = slice(start, min(start + size, self.autoencoder.n_latents))
            block = Block(latents, values[:, latents].T.contiguous().numpy(), places, unit, self.axes[latents])
            self.reservoir.update(block, counters)
            self.contexts.update(block, windows)
            self.firing.update(latents, block.values)
        self.firing.n_tokens += len(places)
        self._seen.append(Seen(places, (unit @ self.frame).numpy()))

    def seen(self) -> Seen:
        """All tokens scored so far, by place."""
        if not self._seen:
            return Seen(np.empty(0, dtype=np.int64), np.empty((0, CONTROL_AXES), dtype=np.float32))
        places = np.concatenate([part.places for part in self._seen])
        order = places.argsort(kind="stable")
        return Seen(places[order], np.concatenate([part.control for part in self._seen])[order])

    def absorb(self, other: "Collector") -> None:
        """Make this what one pass over both parts would have gathered."""
        mine, theirs = self.identity(), other.identity()
        if mine != theirs:
            differing = [name for name in mine if mine[name] != theirs[name]]
            raise ValueError(
                f"two parts with different {' and '.join(differing)} cannot be merged; collect all parts alike"
            )
        shared = np.intersect1d(self.seen().places, other.seen().places)
        if len(shared):
            raise ValueError(f"{len(shared)} tokens are in both parts; give each part its own rank of the stream")
        self.reservoir.absorb(other.reservoir)
        self.contexts.absorb(other.contexts)
        self.firing.absorb(other.firing)
        self._seen += other._seen

    def identity(self) -> dict[str, Any]:
        """What parts must have in common to be merged."""
        return {"settings": asdict(self.settings), "weights": weights_sha256(self.autoencoder)}

    def arrays(self) -> dict[str, Array]:
        """Everything gathered, as arrays."""
        seen = self.seen()
        return {
            **{f"reservoir.{name}": getattr(self.reservoir, name) for name in _RESERVOIR},
            **{f"contexts.{name}": getattr(self.contexts, name) for name in _CONTEXTS},
            **{f"firing.{name}": getattr(self.firing, name) for name in _FIRING},
            "seen.places": seen.places,
            "seen.control": seen.control,
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from what `arrays` returned."""
        for part, names in (("reservoir", _RESERVOIR), ("contexts", _CONTEXTS), ("firing", _FIRING)):
            for name in names:
                setattr(getattr(self, part), name, arrays[f"{part}.{name}"].copy())
        self.reservoir.thresholds = self.reservoir.keys.max(1)
        self._seen = [Seen(arrays["seen.places"].copy(), arrays["seen.control"].copy())]
        self.firing.n_tokens = len(arrays["seen.places"])


def merge(first: Collector, *others: Collector) -> Collector:
    """Merge parts that read different tokens; the first is changed and returned."""
    for other in others:
        first.absorb(other)
    return first


class MemoryNeed(NamedTuple):
    """Bytes that a pass takes, in addition to the language model and the autoencoder."""

    kept: int
    """Held from the first batch to the last; independent of the number of tokens, except for 20 bytes per token."""
    working: int
    """For one batch at a time."""
    result: int
    """Size of the evidence, in memory at the end and on disk."""

    @property
    def peak(self) -> int:
        return self.kept + max(self.working, self.result)


def memory_need(
    *, d_model: int, n_latents: int, n_hidden: int, n_tokens: int, batch_tokens: int, settings: EvidenceSettings
) -> MemoryNeed:
    """Predict the memory of a pass from its sizes."""
    a = settings.n_axes
    point = 8 + 8 + 4 + 4 * a
    context = 2 * settings.n_contexts * (4 + 8 + 8 + 4 * a)
    latent = settings.n_points * point + context + 2 * BINS_PER_SIGN * 8 + 4 * d_model * a
    batch = 4 * batch_tokens * (3 * n_hidden + 2 * n_latents + 2 * d_model) + 64 * BLOCK_NUMBERS
    result = n_latents * settings.n_points * (8 + 4 + 4 * a + 4 * CONTROL_AXES) + 8 * n_tokens
    return MemoryNeed(n_latents * latent + 20 * n_tokens, batch + DECOMPOSING, result)
