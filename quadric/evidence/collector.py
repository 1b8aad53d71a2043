"""Everything that one pass gathers about every latent: updated by batches, saved, restored."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt64
from torch import Tensor

from quadric.evidence.calibration import Calibration, calibrate
from quadric.evidence.firing import SUMS, FiringSums
from quadric.evidence.record import EvidenceSettings
from quadric.evidence.reservoir import (
    CONTROL_AXES,
    Block,
    Reservoir,
    StrongestContexts,
    control_frame,
    token_counters,
)
from quadric.geometry import Centre, Decomposition
from quadric.geometry.centring import Centring, as_read, given_sha256, prepared
from quadric.geometry.decomposition import leading_axes
from quadric.model import Dictionary
from quadric.model.storage import weights_sha256

Array = np.ndarray

BLOCK_NUMBERS = 1 << 18
"""Values of z that are processed together: few enough to stay in the processor's cache from one step to the next."""

_PARTS = {
    "reservoir": ("keys", "places", "values", "coordinates"),
    "contexts": ("strengths", "places", "windows", "coordinates"),
    "firing": (*SUMS, "lowest", "highest", "histogram"),
}
"""What is saved of a pass in progress."""

GeometryOf = Callable[[Centre], Decomposition]
"""Gives the geometry about the centre of the tokens, once it is known."""


class Seen(NamedTuple):
    """The tokens scored so far."""

    places: Int64[Array, " n"]
    control: Float32[Array, "n 3"]


class Collector:
    """What one pass has gathered so far.

    All values in here are deviations sign·z − rest; `quadric.evidence.finishing` adds the value at rest.

    Args:
        autoencoder: The autoencoder whose latents are observed.
        settings: How much is kept.
        geometry: The autoencoder's geometry, or how to get it once the centre of the tokens is known; if it has that
            centre, no latent is decomposed for its axes.
    """

    axes: Tensor
    """Axes of every latent (k, d, a + 1); the last one is the best linear predictor."""
    centring: Centring

    def __init__(
        self,
        autoencoder: Dictionary,
        settings: EvidenceSettings,
        geometry: Decomposition | GeometryOf | None = None,
    ) -> None:
        self.autoencoder, self.settings, self._geometry = autoencoder, settings, geometry
        n_latents, n_axes = autoencoder.n_latents, settings.n_axes
        self.frame = control_frame(autoencoder.d_model, settings.seed)
        self.reservoir = Reservoir(n_latents, settings.n_points, n_axes + 1, settings.epsilon, settings.seed)
        self.contexts = StrongestContexts(n_latents, settings.n_contexts, n_axes + 1)
        self.firing = FiringSums(n_latents)
        self._seen: list[Seen] = []
        self._calibration: Calibration | None = None

    @property
    def is_calibrated(self) -> bool:
        return self._calibration is not None

    @property
    def calibration(self) -> Calibration:
        """What is known about the tokens; an error before the first ones were seen."""
        if self._calibration is None:
            raise ValueError("the collector is not calibrated; gather from a stream, or call calibrate first")
        return self._calibration

    def calibrate(self, tokens: Tensor) -> None:
        """Estimate the calibration from raw token vectors (n, d), of which the first 16,384 are used by default."""
        self.use(calibrate(self.autoencoder, tokens[: self.settings.n_calibration_tokens]))

    def use(self, calibration: Calibration) -> None:
        """Take over a calibration, and compute the axes about its centre."""
        self._calibration = calibration
        self.centring = calibration.centring(self.autoencoder)
        centre = calibration.tokens_centre()
        geometry = self._geometry(centre) if callable(self._geometry) else self._geometry
        if geometry is not None and geometry.centre_sha256 != given_sha256(self.autoencoder, centre):
            geometry = None  # it is about another centre
        axes = leading_axes(self.autoencoder, self.settings.n_axes, geometry, centre=centre)
        self.axes = torch.cat([axes, torch.from_numpy(np.array(calibration.linear))[..., None]], dim=2)

    @property
    def n_tokens(self) -> int:
        return self.firing.n_tokens

    @torch.no_grad()
    def update(self, tokens: Tensor, places: Int64[Array, " n"], windows: UInt64[Array, " n"]) -> None:
        """Score a batch of raw token vectors (n, d), given their places and the hashes of the text around them."""
        known = self.calibration
        given = prepared(self.autoencoder, tokens)
        signed = self.autoencoder.encode(given).float().cpu() * torch.from_numpy(np.array(known.signs))
        # The density is that of x̃ at unit norm.
        scales = self.autoencoder.latent_scale(given)[:, 0].reciprocal().float().cpu().numpy()
        v = self.centring.coordinates(as_read(self.autoencoder, given).float().cpu())
        predicted = v @ self.axes[..., -1].mT
        offset = self.autoencoder.density_offset()
        offsets = known.signs * (0 if offset is None else offset.detach().float().cpu().numpy())
        counters = token_counters(self.settings.seed, places)
        size = max(1, BLOCK_NUMBERS // len(places))
        for start in range(0, self.autoencoder.n_latents, size):
            latents = slice(start, min(start + size, self.autoencoder.n_latents))
            values = signed[:, latents].T.contiguous().numpy()
            block = Block(latents, values - known.rest[latents, None], places, v, self.axes[latents])
            self.reservoir.update(block, counters)
            self.contexts.update(block, windows)
            self.firing.update(
                latents,
                block.values,
                for_density=values * scales - offsets[latents, None],
                predicted=predicted[:, latents].T.contiguous().numpy(),
            )
        self.firing.n_tokens += len(places)
        self._seen.append(Seen(places, (v @ self.frame).numpy()))

    def seen(self) -> Seen:
        """All tokens scored so far, by place."""
        if not self._seen:
            return Seen(np.empty(0, dtype=np.int64), np.empty((0, CONTROL_AXES), dtype=np.float32))
        places = np.concatenate([part.places for part in self._seen])
        order = places.argsort(kind="stable")
        return Seen(places[order], np.concatenate([part.control for part in self._seen])[order])

    def identity(self) -> dict[str, Any]:
        """What the state of a pass must share with the pass that continues it."""
        return {"settings": asdict(self.settings), "weights": weights_sha256(self.autoencoder)}

    def arrays(self) -> dict[str, Array]:
        """Everything gathered, as arrays."""
        seen = self.seen()
        return {
            **{f"calibration.{name}": array for name, array in self.calibration.arrays().items()},
            **{f"{part}.{name}": getattr(getattr(self, part), name) for part in _PARTS for name in _PARTS[part]},
            "seen.places": seen.places,
            "seen.control": seen.control,
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from what `arrays` returned."""
        prefix = "calibration."
        known = {name.removeprefix(prefix): arrays[name].copy() for name in arrays if name.startswith(prefix)}
        self.use(Calibration.from_arrays(known))
        for part, names in _PARTS.items():
            for name in names:
                setattr(getattr(self, part), name, arrays[f"{part}.{name}"].copy())
        self.reservoir.thresholds = self.reservoir.keys.max(1)
        self._seen = [Seen(arrays["seen.places"].copy(), arrays["seen.control"].copy())]
        self.firing.n_tokens = len(arrays["seen.places"])
