"""The lens: a fixed map from a token to the coordinates in which a dictionary's forms are written.

Residual-stream tokens have a large mean. A form on raw tokens then spends itself on (μ̂·x)(v·x), a linear
latent that looks like a hyperboloid. The affine lens takes the mean out and keeps a constant beside what is left,

    u = x/‖x‖,    v = u − μ,    x̃ = [v; c],    z = x̃ᵀW̃x̃ = vᵀQv + c·bᵀv + c²a,    W̃ = [[Q, b/2], [bᵀ/2, a]],

so that quadratic, linear and constant parts of a latent are separate blocks of its form. The paper's lens is x̃ = x.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.model.devices import exact
from quadric.model.objective import check_tokens, unit_tokens
from quadric.model.settings import LensKind

CONSTANT_SHARE = 0.1
"""Share of a token's energy ‖x̃‖² that the constant has on average. Raw tokens behave like 0.5."""


class TokenMoments(NamedTuple):
    """Sums over unit tokens, which may be added up over batches and processes; in float64."""

    n_tokens: int
    total: Float[Tensor, " d"]
    """Σu."""
    outer: Float[Tensor, "d d"]
    """Σuuᵀ."""

    def __add__(self, other: "TokenMoments") -> "TokenMoments":  # type: ignore[override]
        return TokenMoments(
            self.n_tokens + other.n_tokens,
            self.total + other.total.to(self.total),
            self.outer + other.outer.to(self.outer),
        )

    @property
    def mean(self) -> Float[Tensor, " d"]:
        return self.total / self.n_tokens

    @property
    def covariance(self) -> Float[Tensor, "d d"]:
        return self.outer / self.n_tokens - self.mean.outer(self.mean)


def token_moments(tokens: Float[Tensor, "n d"]) -> TokenMoments:
    """The sums of one batch, in float64: a mean over many tokens must not depend on how they were batched."""
    check_tokens(tokens, tokens.shape[-1])
    unit = exact(unit_tokens(tokens))
    return TokenMoments(len(unit), unit.sum(0), unit.mT @ unit)


class PaperLens(nn.Module):
    """x̃ = x: forms are written in the coordinates of the token itself, about the origin.

    Example:
        >>> PaperLens(8)(torch.ones(2, 8)).shape
        torch.Size([2, 8])
    """

    kind: LensKind = "paper"
    centre: Tensor | None = None
    constant: Tensor | None = None
    covariance: Tensor | None = None

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
    """x̃ = [u − μ; c] of the unit token u.

    Args:
        centre: μ, the mean of the unit tokens.
        constant: c.
        covariance: of the unit tokens. Geometry needs it to say how much of a latent is curved.
        n_tokens: how many tokens these were estimated from.

    Example:
        >>> lens = affine_lens(token_moments(torch.randn(100, 8) + 2))
        >>> lens(torch.randn(5, 8)).shape
        torch.Size([5, 9])
    """

    kind: LensKind = "affine"
    centre: Tensor
    constant: Tensor
    covariance: Tensor
    n_tokens: Tensor

    def __init__(
        self,
        centre: Float[Tensor, " d"],
        constant: Float[Tensor, ""],
        covariance: Float[Tensor, "d d"],
        n_tokens: Int[Tensor, ""],
    ) -> None:
        super().__init__()
        self.d_model = len(centre)
        self.width = 1 + self.d_model
        for name, value in (("centre", centre), ("constant", constant), ("covariance", covariance)):
            self.register_buffer(name, value)
        self.register_buffer("n_tokens", n_tokens)

    @classmethod
    def unknown(cls, d_model: int) -> "AffineLens":
        """A lens that is still to be estimated or restored; until then every latent is NaN."""
        nothing = torch.tensor(torch.nan)
        return cls(nothing.repeat(d_model), nothing.clone(), nothing.repeat(d_model, d_model), torch.tensor(0))

    @property
    def is_known(self) -> bool:
        """Whether it was estimated from tokens."""
        return bool(self.n_tokens > 0)

    def forward(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        unit = unit_tokens(tokens)
        constant = self.constant.to(unit.dtype).expand(len(unit), 1)
        return torch.cat([unit - self.centre.to(unit.dtype), constant], dim=1)

    def to_raw(self, factors: Float[Tensor, "h w"]) -> Float[Tensor, "h d"]:
        """Factors L of forms on x̃ as factors LTᵀ of forms on u: u = T x̃ with T = [I, μ/c]."""
        scale = factors[:, -1:] / self.constant.to(factors.dtype)
        return factors[:, :-1] + scale * self.centre.to(factors.dtype)

    def vector_from(self, column: Float[Tensor, "n w"]) -> Float[Tensor, "n d"]:
        """û from the last column of X̃̂, whose entries estimate c·v: the sign needs no help from the token."""
        return column[:, :-1] / self.constant.to(column.dtype) + self.centre.to(column.dtype)

    def tensors(self) -> dict[str, Tensor]:
        """What an autoencoder saves of its lens."""
        return {f"lens_{name}": getattr(self, name) for name in ("centre", "constant", "covariance", "n_tokens")}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "AffineLens":
        """The lens that `tensors` saved."""
        return cls(*(tensors[f"lens_{name}"] for name in ("centre", "constant", "covariance", "n_tokens")))

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, constant={float(self.constant):.4g}, n_tokens={int(self.n_tokens):,}"


Lens = PaperLens | AffineLens


def affine_lens(moments: TokenMoments, *, constant_share: float = CONSTANT_SHARE) -> AffineLens:
    """The lens that centres these tokens, with c² = s/(1 − s) · E‖v‖² for the constant's share s.

    E‖v‖² = 1 − ‖μ‖², since tokens have unit norm.

    Args:
        moments: Sums over the tokens.
        constant_share: The share of E‖x̃‖² that c² is to have.

    Returns:
        The lens, in float32.
    """
    if not 0 < constant_share < 1:
        raise ValueError(f"constant_share={constant_share} is not a share between 0 and 1; e.g. {CONSTANT_SHARE}")
    mean = moments.mean
    spread = 1 - mean.square().sum()
    if not spread > 1e-6:
        raise ValueError(
            "all tokens point in the same direction, so nothing is left once their mean is taken out; "
            "train with lens='paper', or look at the activations"
        )
    constant = (constant_share / (1 - constant_share) * spread).sqrt()
    return AffineLens(mean.float(), constant.float(), moments.covariance.float(), torch.tensor(moments.n_tokens))
