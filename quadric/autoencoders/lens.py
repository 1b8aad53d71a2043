"""The lens: a fixed map from a token to the coordinates in which a dictionary's forms are written.

Residual-stream tokens have a large mean. A form on raw tokens then spends itself on (μ̂·x)(v·x), a linear
latent that looks like a hyperboloid. The affine lens takes the mean out and keeps a constant beside what is left,

    u = x/‖x‖,    v = P(u − μ),    x̃ = [v; c],    z = x̃ᵀW̃x̃ = vᵀQv + c·bᵀv + c²a,    W̃ = [[Q, b/2], [bᵀ/2, a]],

so that quadratic, linear and constant parts of a latent are separate blocks of its form. The paper's lens is x̃ = x.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.autoencoders.objective import unit_tokens

LensKind = Literal["paper", "affine"]

CONSTANT_SHARE = 0.1
"""Share of a token's energy ‖x̃‖² that the constant has on average. Raw tokens behave like 0.5."""


class PaperLens(nn.Module):
    """x̃ = x: forms are written in the coordinates of the token itself, about the origin.

    Example:
        >>> PaperLens(8)(torch.ones(2, 8)).shape
        torch.Size([2, 8])
    """

    kind: LensKind = "paper"
    centre: Tensor | None = None
    constant: Tensor | None = None
    projection: Tensor | None = None

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = self.width = d_model

    def forward(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return tokens

    def to_raw(self, factors: Float[Tensor, "h w"]) -> Float[Tensor, "h d"]:
        """Factors L of forms on x̃ as factors LTᵀ of forms on u."""
        return factors

    def tensors(self) -> dict[str, Tensor]:
        """What an autoencoder saves of its lens."""
        return {}

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}"


class AffineLens(nn.Module):
    """x̃ = [P(u − μ); c] of the unit token u; P is the identity where it is left out.

    `constant` is c, chosen so that c² is the wanted share of E‖x̃‖²: c² = s/(1 − s) · E‖v‖².
    """

    kind: LensKind = "affine"
    centre: Tensor
    constant: Tensor
    projection: Tensor | None

    def __init__(
        self,
        centre: Float[Tensor, " d"],
        constant: Float[Tensor, ""],
        projection: Float[Tensor, "r d"] | None = None,
    ) -> None:
        super().__init__()
        self.d_model = len(centre)
        self.width = 1 + (self.d_model if projection is None else len(projection))
        self.register_buffer("centre", centre)
        self.register_buffer("constant", constant)
        self.register_buffer("projection", projection)

    def forward(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        unit = unit_tokens(tokens)
        centred = unit - self.centre.to(unit.dtype)
        if self.projection is not None:
            centred = centred @ self.projection.to(unit.dtype).mT
        constant = self.constant.to(unit.dtype).expand(len(unit), 1)
        return torch.cat([centred, constant], dim=1)

    def to_raw(self, factors: Float[Tensor, "h w"]) -> Float[Tensor, "h d"]:
        """Factors L of forms on x̃ as factors LTᵀ of forms on u.

        u = T x̃ with T = [P⁺, μ/c], for tokens that the projection keeps whole.
        """
        inside = factors[:, :-1]
        if self.projection is not None:
            inside = inside @ torch.linalg.pinv(self.projection.to(factors.dtype)).mT
        scale = factors[:, -1:] / self.constant.to(factors.dtype)
        return inside + scale * self.centre.to(factors.dtype)

    def vector_from(self, column: Float[Tensor, "n w"]) -> Float[Tensor, "n d"]:
        """û from the last column of X̃̂, whose entries estimate c·v: the sign needs no help from the token."""
        offset = column[:, :-1] / self.constant.to(column.dtype)
        if self.projection is not None:
            offset = offset @ torch.linalg.pinv(self.projection.to(column.dtype)).mT
        return offset + self.centre.to(column.dtype)

    @classmethod
    def unknown(cls, d_model: int) -> "AffineLens":
        """A lens whose values are still to be restored; until then every latent is NaN."""
        return cls(torch.full((d_model,), torch.nan), torch.tensor(torch.nan))

    def tensors(self) -> dict[str, Tensor]:
        """What an autoencoder saves of its lens."""
        return {"lens_centre": self.centre, "lens_constant": self.constant}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "AffineLens":
        """The lens that `tensors` saved."""
        return cls(tensors["lens_centre"], tensors["lens_constant"])

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, width={self.width}, constant={float(self.constant):.4g}"


Lens = PaperLens | AffineLens


class TokenMoments(NamedTuple):
    """Sums over unit tokens, which may be added up over batches and processes."""

    n_tokens: int
    total: Float[Tensor, " d"]
    """Σu."""
    outer: Float[Tensor, "d d"] | None
    """Σuuᵀ, where a projection is wanted."""


def token_moments(tokens: Float[Tensor, "n d"], *, with_outer: bool = False) -> TokenMoments:
    """The sums of one batch, in float64: a mean over many tokens must not depend on how they were batched."""
    unit = unit_tokens(tokens).double()
    return TokenMoments(len(unit), unit.sum(0), unit.mT @ unit if with_outer else None)


def affine_lens(
    moments: TokenMoments, *, constant_share: float = CONSTANT_SHARE, n_components: int | None = None
) -> AffineLens:
    """The lens that centres these tokens; `n_components` keeps only their leading principal components.

    For P = I, E‖v‖² = 1 − ‖μ‖², since tokens have unit norm.
    """
    if not 0 < constant_share < 1:
        raise ValueError(f"constant_share={constant_share} is not a share between 0 and 1; e.g. {CONSTANT_SHARE}")
    mean = moments.total / moments.n_tokens
    projection, spread = None, 1 - mean.square().sum()
    if n_components is not None:
        projection, spread = _principal_components(moments, mean, n_components)
    if not spread > 1e-6:
        raise ValueError("all tokens point in the same direction, so nothing is left once their mean is taken out")
    constant = (constant_share / (1 - constant_share) * spread).sqrt()
    return AffineLens(mean.float(), constant.float(), None if projection is None else projection.float())


def _principal_components(moments: TokenMoments, mean: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The leading directions of the centred tokens as rows, and their variance together."""
    if moments.outer is None:
        raise ValueError("principal components need the second moments; add them up with with_outer=True")
    if not 1 <= count <= len(mean):
        raise ValueError(f"n_components={count} is outside 1 … {len(mean)}, the width of the tokens")
    covariance = moments.outer / moments.n_tokens - mean.outer(mean)
    values, vectors = torch.linalg.eigh(covariance)
    return vectors[:, -count:].flip(1).mT.contiguous(), values[-count:].sum()
