"""Bits needed to describe latents, so that priors can be compared by error per bit.

The code is simple: every number costs `precision` bits, and a support is an index among all supports of its size.
Offsets are left out: they belong to the training penalty, not to the forms.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import as_forms, support
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.mixing import Composite, Dense


class DescriptionLength(NamedTuple):
    """Bits of an autoencoder's forms, each latent taken alone and all of them together."""

    alone: Float[Tensor, " k"]
    """Bits of each latent with its own copies of its atoms, or of its w(w+1)/2 entries where that is shorter."""
    atoms: float
    """Bits of the atoms that any latent uses, each counted once."""
    supports: float
    """Bits that encode which atoms each latent uses; 0 where the prior fixes it."""
    weights: float
    """Bits of the entries of C that differ from zero; 0 where C is the identity."""
    precision: int
    """Bits per number."""

    def __repr__(self) -> str:
        return (
            f"DescriptionLength({len(self.alone):,} latents, {self.total:.4g} bits at {self.precision} bits per number)"
        )

    @property
    def total(self) -> float:
        """Bits of the whole dictionary, shared atoms counted once."""
        return self.atoms + self.supports + self.weights


@torch.no_grad()
def description_length(autoencoder: Autoencoder, precision: int | None = None) -> DescriptionLength:
    """Bits of every latent and of the whole dictionary; by default at the precision in which the weights are stored.

    A latent with s of h atoms costs log₂(h + 1) + log₂ C(h, s) bits for its support, s weights and s atoms of 2w
    numbers (w where L = R), with w = d, or d + 1 with an affine lens. The lens itself is not counted. A direction of a
    linear dictionary costs d numbers: what it writes, without its encoder.

    Args:
        autoencoder: Any dictionary.
        precision: Bits per number; by default those of the stored weights.

    Returns:
        Bits of each latent alone, and of the dictionary, in which shared atoms count once.

    Example:
        >>> bits = geometry.description_length(ae, precision=16)
        >>> bits.total <= bits.alone.sum()
        tensor(True)
    """
    bilinear = as_forms(autoencoder)
    precision = 8 * bilinear.left.element_size() if precision is None else precision
    if precision < 1:
        raise ValueError(f"precision={precision} is not a number of bits ≥ 1; 32 is that of float32")
    counts = support(bilinear).cpu().double()
    choice = _support_bits(counts, bilinear)
    values = torch.zeros_like(counts) if bilinear.prior == "atomic" else counts * precision
    per_atom = _numbers_per_atom(bilinear) * precision
    width = bilinear.lens.width
    whole_matrix = precision * width * (width + 1) / 2
    return DescriptionLength(
        alone=(choice + values + counts * per_atom).clamp(max=whole_matrix),
        atoms=float(_atoms_in_use(bilinear) * per_atom),
        supports=float(choice.sum()),
        weights=float(values.sum()),
        precision=precision,
    )


def _numbers_per_atom(autoencoder: BilinearAutoencoder) -> int:
    return autoencoder.lens.width * (1 if autoencoder.tied else 2)


def _support_bits(counts: Tensor, autoencoder: BilinearAutoencoder) -> Tensor:
    """log₂(h + 1) for the size and log₂ C(h, s) for the choice, where the prior leaves them open."""
    if not isinstance(autoencoder.mixing, Composite):
        return torch.zeros_like(counts)
    h = torch.tensor(float(autoencoder.n_hidden), dtype=torch.float64)
    choices = torch.lgamma(h + 1) - torch.lgamma(counts + 1) - torch.lgamma(h - counts + 1)
    return math.log2(autoencoder.n_hidden + 1) + choices.clamp(min=0) / math.log(2)


def _atoms_in_use(autoencoder: BilinearAutoencoder) -> int:
    if isinstance(autoencoder.mixing, Composite):
        _, atoms, weights = autoencoder.mixing.entries()
        return len(set(atoms[weights != 0].tolist()))
    if isinstance(autoencoder.mixing, Dense):
        return int(autoencoder.mixing.weight.any(dim=0).sum())
    return autoencoder.n_hidden
