"""How far activations are from those of a corpus: Mahalanobis distance and nearest neighbour, in whitened space.

Unit tokens u are whitened by the corpus, y = Σ^(−½)(u − μ). Both distances are divided by √d, so that corpus tokens
have a root mean square Mahalanobis distance of 1.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.lens import token_moments
from quadric.model.objective import unit_tokens

RIDGE = 1e-3
"""Added to Σ, as a share of the mean variance of a coordinate: directions in which a sample hardly varies would else
count without bounds."""
LARGEST_SAMPLE = 4096
"""Corpus tokens among which the nearest neighbour is looked for."""


class Distances(NamedTuple):
    """Of activations from a corpus, one number per activation."""

    mahalanobis: Float[Tensor, " n"]
    nearest: Float[Tensor, " n"]


class CorpusSpace:
    """Whitened space of a corpus, with some of its tokens.

    Args:
        tokens: Activations (n, d) of the corpus, more than d.

    Example:
        >>> space = CorpusSpace(torch.randn(500, 8) + 1)
        >>> far = space.distances(torch.randn(3, 8) - 5)
        >>> bool((far.nearest > 0).all())
        True
    """

    def __init__(self, tokens: Float[Tensor, "n d"]) -> None:
        if len(tokens) <= tokens.shape[1]:
            raise ValueError(
                f"corpus has {len(tokens)} tokens of width {tokens.shape[1]}, too few for their covariance; "
                f"give at least {4 * tokens.shape[1]}"
            )
        moments = token_moments(tokens)
        self.mean = moments.mean
        variances, axes = torch.linalg.eigh(moments.covariance)
        variances = variances.clamp(min=0) + RIDGE * variances.mean()
        self.whitener = (axes / variances.sqrt()) @ axes.mT
        stride = -(-len(tokens) // LARGEST_SAMPLE)
        self.sample = self.whiten(tokens[::stride])

    def whiten(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """y of activations, divided by √d, in float64."""
        centred = unit_tokens(x).double().to(self.mean) - self.mean
        whitened: Tensor = centred @ self.whitener / len(self.mean) ** 0.5
        return whitened

    def distances(self, x: Float[Tensor, "n d"]) -> Distances:
        """Distances of activations from the mean of the corpus, and from the nearest of its tokens."""
        whitened = self.whiten(x)
        nearest = torch.cdist(whitened, self.sample).min(dim=1).values
        return Distances(whitened.norm(dim=1), nearest)
