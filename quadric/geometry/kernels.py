"""Inner products between all latents of two autoencoders: of forms in blocks of atoms, and of directions.

M = C G C'ᵀ with M_ij = ⟨W_i, W'_j⟩ and G the inner products of the symmetric atoms. Forms are symmetrized,
since data sees only their symmetric part, whether or not an autoencoder was trained with the printed kernel.

A latent of a bilinear dictionary counts as the counterpart of a direction d as far as it is a function of d·v,
whatever function: its form overlaps with the energy along d, the rank-1 form ddᵀ, and in the coordinates [v; c] of an
affine lens also with the slope along d, the form of c·d·v. The two are orthogonal, so

    overlap² = cos²(W, ddᵀ) + cos²(W, slope along d) = ((dᵀQd)² + (b·d)²/2) / ‖W‖²    for unit d.

Two directions overlap by their cosine, and not at all if they point away from each other.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import as_forms, require_forms
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.fast.kernel import cross_gram
from quadric.model.forms import Directions, Forms
from quadric.model.lens import AffineLens

ATOM_BLOCK = 1_024
"""Atoms of one side whose inner products with all atoms of the other are held at once."""
CHEAP_IN_DOUBLE = 2**32
"""Largest number of multiplications, h·h'·d, for which float64 costs less than a few seconds."""


@torch.no_grad()
def cross_kernel(a: Dictionary | Forms, b: Dictionary | Forms) -> Float[Tensor, "k g"]:
    """M_ij = ⟨W_i, W'_j⟩ between the latents of two autoencoders of one lens; `cross_kernel(a, a)` is the kernel K.

    Small dictionaries are multiplied in float64, large ones in float32, whose rounding changes a similarity by ~1e-7.
    """
    a, b = as_forms(a), as_forms(b)
    if not same_lens(a, b):
        raise ValueError(
            "the two autoencoders read tokens through different lenses, so their forms have different coordinates; "
            "bring them into common ones with quadric.geometry.similarity.comparable"
        )
    cheap = a.n_hidden * b.n_hidden * a.lens.width <= CHEAP_IN_DOUBLE
    dtype = torch.float64 if cheap else torch.float32
    left, right = _factors(a, dtype)
    other_left, other_right = _factors(b, dtype)
    half = left.new_empty(a.n_hidden, b.n_latents)
    for start in range(0, a.n_hidden, ATOM_BLOCK):
        rows = slice(start, start + ATOM_BLOCK)
        half[rows] = b.mixing.mix(cross_gram(left[rows], right[rows], other_left, other_right))
    return a.mixing.mix(half.mT).mT.contiguous()  # one layout, hence one order of summation, for every prior


def same_lens(a: Dictionary | Forms, b: Dictionary | Forms) -> bool:
    """Whether the forms of two autoencoders have the same coordinates."""
    if a.lens is b.lens or not isinstance(a.lens, AffineLens) or not isinstance(b.lens, AffineLens):
        return a.lens.kind == b.lens.kind and a.lens.width == b.lens.width
    mine, other = ((lens.centre.cpu().double(), lens.constant.cpu().double()) for lens in (a.lens, b.lens))
    return all(torch.equal(one, another) for one, another in zip(mine, other, strict=True))


@torch.no_grad()
def traces(autoencoder: Dictionary | Forms) -> Float[Tensor, " k"]:
    """tr W_i = Σ_j C_ij l_j·r_j of every latent."""
    forms = as_forms(autoencoder)
    left, right = _factors(forms, torch.float64)
    return forms.mixing.mix((left * right).sum(-1)[None])[0]


def _factors(autoencoder: Forms, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    left = autoencoder.left.detach().to(dtype)
    return left, left if autoencoder.same_factors else autoencoder.right.detach().to(dtype)


@torch.no_grad()
def reconstruction_gram(autoencoder: Dictionary) -> Float[Tensor, "k k"]:
    """Inner products of what the latents add to the reconstruction: of forms, or of the directions of a linear one."""
    forms = autoencoder.forms()
    if isinstance(forms, Directions):
        return forms.writes.detach() @ forms.writes.detach().mT
    return cross_kernel(require_forms(autoencoder), require_forms(autoencoder))


def squared_norm(matrix: Float[Tensor, "k g"]) -> float:
    """‖M‖_F², added up in float64 without a float64 copy of the matrix."""
    return math.fsum(float(rows.double().square().sum()) for rows in torch.split(matrix, ATOM_BLOCK))


def inner(matrix: Float[Tensor, "k g"], other: Float[Tensor, "k g"]) -> float:
    """⟨A, B⟩_F, added up as `squared_norm` does, so that ⟨A, A⟩ is exactly ‖A‖²."""
    pairs = zip(torch.split(matrix, ATOM_BLOCK), torch.split(other, ATOM_BLOCK), strict=True)
    return math.fsum(float((rows.double() * others.double()).sum()) for rows, others in pairs)


@torch.no_grad()
def direction_overlaps(
    directions: Float[Tensor, "k d"], other: Dictionary | Forms | Float[Tensor, "g d"]
) -> Float[Tensor, "k g"]:
    """How much each direction has in common with each latent of another dictionary, or with other directions.

    Numbers from 0 to 1; 0 where either is empty.
    """
    unit = _unit(directions)
    if isinstance(other, Dictionary) and isinstance(forms := other.forms(), Directions):
        other = forms.writes
    if isinstance(other, Tensor):
        return (unit @ _unit(other).to(unit).mT).clamp(0, 1)
    return _with_forms(unit, require_forms(other))


def _unit(directions: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
    return torch.nn.functional.normalize(exact(directions.detach()), dim=1)


def _with_forms(unit: Float[Tensor, "k d"], bilinear: Forms) -> Float[Tensor, "k g"]:
    left, right = (factors.detach().double() for factors in (bilinear.left, bilinear.right))
    unit, d_model, mix = unit.to(left.device), bilinear.d_model, bilinear.mixing.mix
    on_left, on_right = unit @ left[:, :d_model].mT, unit @ right[:, :d_model].mT
    squares = mix(on_left * on_right).square()
    if isinstance(bilinear.lens, AffineLens):
        squares = squares + mix(on_left * right[:, -1] + on_right * left[:, -1]).square() / 2
    norms = cross_kernel(bilinear, bilinear).diagonal().double().clamp(min=0)
    return torch.where(norms > 0, squares / torch.where(norms > 0, norms, 1), 0).sqrt().clamp(max=1)
