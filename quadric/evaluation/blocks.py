"""The error of a dictionary by block: constant, linear and quadratic part of what it rebuilds.

With m the direction of the mean token and u = αm + y, y ⟂ m, the target uuᵀ has three blocks,

    α²mmᵀ (constant),    α(myᵀ + ymᵀ) (linear),    yyᵀ (quadratic),

whose squared norms α⁴, 2α²‖y‖², ‖y‖⁴ add up to one. Tokens of a language model have a large mean, so that one error for
all blocks says little about shapes: a dictionary may lose most of the quadratic block behind a small total.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import require_forms
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.forms import Forms
from quadric.model.settings import LARGEST_KERNEL
from quadric.model.step import plain_gram


class Blocks(NamedTuple):
    """One number for each block."""

    constant: float
    linear: float
    quadratic: float


class BlockErrors(NamedTuple):
    """Errors by block, and how much of the tokens' energy each block holds."""

    error: Blocks
    """‖block of X̂ − block of X‖² over ‖block of X‖², both summed over tokens."""
    energy: Blocks
    """Share of Σ‖X‖²."""
    along: float
    """Mean of α = m·u, which plays the part of an affine lens's constant c."""
    along_deviation: float
    """Standard deviation of α: the blocks are those of a constant only if it is small beside the mean."""


class BlockAccumulator:
    """Adds up the errors of one autoencoder by block, about a given centre of the unit tokens."""

    def __init__(self, autoencoder: Dictionary, centre: Float[Tensor, " d"]) -> None:
        length: Tensor = torch.linalg.vector_norm(centre)
        self.direction = centre / length.clamp(min=1e-12)
        self.autoencoder = autoencoder
        self.across: _AcrossKernel | None = None
        if autoencoder.rebuilds_products:
            forms = autoencoder.forms()  # where the tokens are
            assert isinstance(forms, Forms)
            self.across = _AcrossKernel(forms, self.direction)
        self.errors = torch.zeros(3, dtype=torch.float64)
        self.energies = torch.zeros(3, dtype=torch.float64)
        self.along_sums = torch.zeros(3, dtype=torch.float64)
        """Σ1, Σα and Σα²."""

    @torch.no_grad()
    def add(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"], errors: Float[Tensor, " n"]) -> None:
        """Add prepared tokens with their latents and their product-space errors."""
        unit = tokens / self.autoencoder.lengths_of(tokens)
        along = unit @ self.direction
        y = unit - along[:, None] * self.direction
        constant, quadratic = self._errors(along, y, tokens, latents)
        rest = y.square().sum(-1)
        self.errors += _sums(constant, errors - constant - quadratic, quadratic)
        self.energies += _sums(along**4, 2 * along.square() * rest, rest.square())
        self.along_sums += _sums(torch.ones_like(along), along, exact(along).square())

    def _errors(self, along: Tensor, y: Tensor, tokens: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Squared errors of the constant and of the quadratic block; the linear one is what is left of the whole."""
        if self.across is not None:
            return self.across.errors(along, y, self.autoencoder.at_own_scale(tokens, latents))
        rebuilt = self.autoencoder.vectors_of(tokens, latents) / self.autoencoder.lengths_of(tokens)
        rebuilt_along = rebuilt @ self.direction
        rebuilt_y = rebuilt - rebuilt_along[:, None] * self.direction
        constant = (along.square() - rebuilt_along.square()).square()
        overlap = (y * rebuilt_y).sum(-1).square()
        quadratic = y.square().sum(-1).square() + rebuilt_y.square().sum(-1).square() - 2 * overlap
        return constant, quadratic

    def result(self) -> BlockErrors:
        """Errors and energies over all tokens so far; a block that the tokens do not have counts as error 0."""
        relative = torch.where(self.energies > 0, self.errors / self.energies.clamp(min=1e-30), 0)
        count, along, squares = self.along_sums.tolist()
        mean = along / max(count, 1)
        return BlockErrors(
            error=Blocks(*relative.tolist()),
            energy=Blocks(*(self.energies / self.energies.sum()).tolist()),
            along=mean,
            along_deviation=max(squares / max(count, 1) - mean**2, 0.0) ** 0.5,
        )


class _AcrossKernel:
    """What the blocks of a bilinear reconstruction need: its forms on the raw unit token, along m and across it."""

    def __init__(self, forms: Forms, direction: Float[Tensor, " d"]) -> None:
        dtype = torch.promote_types(forms.left.dtype, torch.float32)
        factors = [forms.lens.to_raw(each.detach().to(dtype)) for each in (forms.left, forms.right)]
        direction = direction.to(factors[0])
        along = [each @ direction for each in factors]
        across = [each - part[:, None] * direction for each, part in zip(factors, along, strict=True)]
        self.factors = across
        """L' and R', restricted to the complement of m."""
        self.mixing = forms.mixing
        gram = plain_gram(across[0], across[1], forms.symmetric)
        self.kernel = self.mixing.mix(self.mixing.mix(gram).mT).detach()
        self.along = self.mixing.mix((along[0] * along[1])[None])[0].detach()
        """mᵀW_i m."""

    def errors(self, along: Tensor, y: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Squared errors of the constant and of the quadratic block, given the latents of x̃ at its own scale."""
        constant = (latents @ self.along.to(latents) - along.square()).square()
        left, right = (each.to(y) for each in self.factors)
        across = self.mixing.mix((y @ left.mT) * (y @ right.mT))
        rebuilt = ((latents @ self.kernel.to(latents)) * latents).sum(-1)
        quadratic = rebuilt - 2 * (latents * across).sum(-1) + y.square().sum(-1).square()
        return constant, quadratic


def can_be_split(autoencoder: Dictionary) -> bool:
    """Whether the kernel of the restricted forms fits into memory."""
    return not autoencoder.rebuilds_products or require_forms(autoencoder).n_hidden <= LARGEST_KERNEL


def _sums(*blocks: Tensor) -> Float[Tensor, " 3"]:
    return torch.stack([exact(each).sum().cpu() for each in blocks])
