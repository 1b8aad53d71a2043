"""What must be known before a pass, from its first tokens: centre, value at rest, sign and best linear predictor.

Latents are shown about the centre of the tokens, as sign·z: W and −W are the same dictionary, and the side that carries
more energy is to be positive. Most tokens have a z near its median, the latent's value at rest, which an affine lens
puts anywhere; firing, contexts and the draw of points are about z − rest. The best linear predictor of z is the control
that says how much of a latent is curved.

A latent of a linear dictionary is z ≥ 0 after its gate. Its sign is part of it, and it rests where it does not fire:
its signs are +1 and its values at rest 0, whatever the tokens.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from quadric.geometry import Centre
from quadric.geometry.centring import Centring, as_read, centring_of, prepared
from quadric.model import Dictionary
from quadric.model.forms import Directions
from quadric.model.lens import TokenMoments, token_moments

Array = np.ndarray

MEDIAN_TOKENS = 4_096
"""Tokens, evenly spread over the first ones, whose z is held at once for the median."""
TOKENS_AT_ONCE = 2_048
RIDGE = 0.1
"""λ of the ridge regression, as a multiple of d/n times the mean variance of a coordinate: nothing for many tokens, and
enough for few that noise is not fitted."""
METHOD = (
    "ridge regression of z on the unit tokens about their centre, over the first {n} {unit}s "
    "(λ = 0.1 · d/n · mean variance)"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Calibration:
    """What the first tokens of a pass say about the tokens and about every latent."""

    n_tokens: int
    """Tokens that it was estimated from."""
    centre: Float32[Array, " d"]
    """Mean of the unit tokens. Raw and linear dictionaries are shown about it; an affine lens has its own centre."""
    covariance: Float32[Array, "d d"]
    """Of the unit tokens."""
    signs: Float32[Array, " k"]
    """+1 or −1: the side of z − rest with more energy is positive in sign·z."""
    rest: Float32[Array, " k"]
    """Median of sign·z; 0 for a linear dictionary."""
    linear: Float32[Array, "k d"]
    """Unit vector of the best linear predictor of sign·z from v; zero for a latent without one."""

    def __repr__(self) -> str:
        return (
            f"Calibration({len(self.rest):,} latents, {self.n_tokens:,} tokens, mean unit token of norm "
            f"{float(np.linalg.norm(self.centre)):.2f})"
        )

    def tokens_centre(self) -> Centre:
        """Mean and covariance of the unit tokens, as geometry takes them."""
        return Centre(torch.from_numpy(np.array(self.centre)), torch.from_numpy(np.array(self.covariance)))

    def centring(self, autoencoder: Dictionary) -> Centring:
        """How tokens and forms of the autoencoder are split about the centre."""
        return centring_of(autoencoder, self.tokens_centre())

    def arrays(self) -> dict[str, Array]:
        """All fields as arrays."""
        return {field.name: np.atleast_1d(np.asarray(getattr(self, field.name))) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "Calibration":
        """Undo `arrays`."""
        return cls(**{**arrays, "n_tokens": int(arrays["n_tokens"][0])})  # type: ignore[arg-type]


@torch.no_grad()
def calibrate(autoencoder: Dictionary, tokens: Float[Tensor, "n d"]) -> Calibration:
    """Estimate what a pass must know from its first activations (n, d); how they were batched changes nothing."""
    given = prepared(autoencoder, tokens).float().cpu()
    read = as_read(autoencoder, given)
    moments = _moments(autoencoder, read)
    centre = Centre(moments.mean.float(), moments.covariance.float())
    centring = centring_of(autoencoder, centre)
    stride = -(-len(read) // MEDIAN_TOKENS)
    is_gated = isinstance(autoencoder.forms(), Directions)
    rest = torch.zeros(autoencoder.n_latents) if is_gated else _median(_values(autoencoder, given[::stride]))
    sums = _Sums(autoencoder.n_latents, autoencoder.d_model)
    for part, own in zip(torch.split(read, TOKENS_AT_ONCE), torch.split(given, TOKENS_AT_ONCE), strict=True):
        sums.add(centring.coordinates(part), _values(autoencoder, own) - rest)
    signs = torch.where(sums.below > sums.above, -1.0, 1.0)
    linear = signs[:, None] * sums.predictors(len(read))
    return Calibration(
        n_tokens=len(read),
        centre=centre.mean.numpy(),
        covariance=moments.covariance.float().numpy(),
        signs=signs.numpy(),
        rest=(signs * rest).numpy(),
        linear=linear.float().numpy(),
    )


def _values(autoencoder: Dictionary, given: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    return autoencoder.encode(given.to(next(autoencoder.parameters()).device)).float().cpu()


def _moments(autoencoder: Dictionary, read: Float[Tensor, "n d"]) -> TokenMoments:
    """Sums over tokens at the scale at which they are read."""
    if not isinstance(autoencoder.forms(), Directions):
        return token_moments(read)
    exact = read.double()
    return TokenMoments(len(exact), exact.sum(0), exact.mT @ exact)


def _median(values: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """The median of every latent; between two middle values, so that −z has minus the median of z."""
    return (values.median(0).values - (-values).median(0).values) / 2


class _Sums:
    """Sums over tokens from which signs and linear predictors follow."""

    def __init__(self, n_latents: int, d_model: int) -> None:
        self.above = torch.zeros(n_latents, dtype=torch.float64)
        self.below = torch.zeros(n_latents, dtype=torch.float64)
        self.v = torch.zeros(d_model, dtype=torch.float64)
        self.z = torch.zeros(n_latents, dtype=torch.float64)
        self.outer = torch.zeros(d_model, d_model, dtype=torch.float64)
        self.cross = torch.zeros(d_model, n_latents, dtype=torch.float64)

    def add(self, v: Float[Tensor, "n d"], deviations: Float[Tensor, "n k"]) -> None:
        squares = deviations.square()
        self.above += (squares * (deviations > 0)).sum(0, dtype=torch.float64)
        self.below += (squares * (deviations < 0)).sum(0, dtype=torch.float64)
        self.v += v.sum(0, dtype=torch.float64)
        self.z += deviations.sum(0, dtype=torch.float64)
        self.outer += (v.mT @ v).double()
        self.cross += (v.mT @ deviations).double()

    def predictors(self, n: int) -> Float[Tensor, "k d"]:
        """Unit vectors of the ridge regression of z on v."""
        covariance = self.outer / n - (self.v / n).outer(self.v / n)
        d = len(covariance)
        ridge = RIDGE * d / n * float(covariance.trace()) / d
        regularized = covariance + max(ridge, 1e-12) * torch.eye(d, dtype=torch.float64)
        slopes = torch.linalg.solve(regularized, self.cross / n - (self.v / n).outer(self.z / n)).mT
        lengths = torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
        return torch.where(lengths > 0, slopes / torch.where(lengths > 0, lengths, 1), 0)
