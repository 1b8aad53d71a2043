"""Agreement of two autoencoders, from weights alone: as a whole, latent by latent, and relative to chance.

With the cross-Gram matrix M_ij = ⟨W_i, W'_j⟩ and the kernels K = WWᵀ and K' = W'W'ᵀ,

    Sim_F = 2‖M‖² / (‖K‖² + ‖K'‖²)             compares the operators WᵀW and W'ᵀW', whatever the order of latents
    Sim_H = √⟨PᵀKP, K'⟩ / ‖K'‖                 compares matched latents; P maximizes Σ_i M_{i,P(i)}
    alignment = Σ_i M_{i,P(i)} / √(tr K tr K')  is what P maximized, between −1 and 1

The paper's Sim_F read on k×k kernels would depend on the order of latents; tr(WᵀW W'ᵀW') = ‖M‖² does not.

Sim_H as printed compares how the matched latents lie among each other, not where they lie: two dictionaries of
orthonormal forms have K = K' = I and hence Sim_H = 1 even if their forms are unrelated. Compare it with its random
null, or use the alignment instead.

Dictionaries with different lenses have forms in different coordinates. Those of a second affine lens are brought into
the coordinates of the first exactly, x̃₂ = A x̃₁ with A = [[I, (μ₁ − μ₂)/c₁], [0, c₂/c₁]]. If one dictionary is raw, all
are compared by their forms on the raw unit token, those of which their reconstructions consist.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.dictionary import as_forms
from quadric.geometry.kernels import cross_kernel, inner, same_lens, squared_norm
from quadric.model import Dictionary
from quadric.model.forms import Forms
from quadric.model.lens import AffineLens
from quadric.model.mixing import Identity, Mixing, initial_composite, initial_dense, initial_matrix
from quadric.model.settings import Composite


class HungarianSimilarity(NamedTuple):
    """Agreement of matched latents; `float(...)` is the similarity."""

    similarity: float
    """√⟨PᵀKP, K'⟩ / ‖K'‖, as the paper prints it: relative to the second autoencoder, so it may exceed 1."""
    symmetric: float
    """√(⟨PᵀKP, K'⟩ / ‖K‖‖K'‖), the same whichever comes first and never above 1."""
    alignment: float
    """Σ_i M_{i,P(i)} / √(tr K tr K'): 1 only if all matched forms coincide, near 0 for unrelated ones."""
    latents: Int[Tensor, " m"]
    """Latents of the first autoencoder that have a partner; all of them unless the second has fewer."""
    partners: Int[Tensor, " m"]
    """The latent of the second autoencoder that each is matched with."""
    cosines: Float[Tensor, " m"]
    """⟨W_i, W'_P(i)⟩ / ‖W_i‖‖W'_P(i)‖ of each matched pair; 0 where one of them is empty."""
    sign_free: bool
    """Whether W and −W counted as the same latent."""

    def __repr__(self) -> str:
        return (
            f"HungarianSimilarity({self.similarity:.4f}, symmetric={self.symmetric:.4f}, "
            f"alignment={self.alignment:.4f}, {len(self.latents):,} matched latents, sign_free={self.sign_free})"
        )

    def __float__(self) -> float:
        return self.similarity


def frobenius_similarity(a: Dictionary | Forms, b: Dictionary | Forms, *, force: bool = False) -> float:
    """Sim_F = 2‖M‖² / (‖K‖² + ‖K'‖²): 1 for the same operator on the product space, 0 for orthogonal ones.

    Args:
        a: Any dictionary.
        b: Another of the same model and hook point.
        force: Compare dictionaries of different models or hook points.

    Returns:
        A number in [0, 1]; order and signs of latents do not matter.

    Example:
        >>> round(geometry.frobenius_similarity(ae, ae), 4)
        1.0
    """
    first, second = comparable(a, b, force)
    energies = squared_norm(cross_kernel(first, first)), squared_norm(cross_kernel(second, second))
    return frobenius_from_norms(squared_norm(cross_kernel(first, second)), *energies)


def frobenius_from_norms(cross: float, energy: float, other_energy: float) -> float:
    """Sim_F from ‖M‖², ‖K‖² and ‖K'‖²; two empty dictionaries agree."""
    total = energy + other_energy
    return 2 * cross / total if total else 1.0


def hungarian_similarity(
    a: Dictionary | Forms, b: Dictionary | Forms, *, sign_free: bool = False, force: bool = False
) -> HungarianSimilarity:
    """Sim_H with the assignment that maximizes Σ_i M_{i,P(i)}.

    W_i → −W_i does not change an autoencoder's function, but the printed assignment counts it as a disagreement;
    `sign_free=True` maximizes Σ_i |M_{i,P(i)}| instead, and each partner gets the sign that fits.

    Args:
        a: Any dictionary.
        b: Another of the same model and hook point.
        sign_free: Match by |M|.
        force: Compare dictionaries of different models or hook points.

    Returns:
        Sim_H as printed and symmetric, the alignment, and the assignment with its cosines.

    Example:
        >>> matched = geometry.hungarian_similarity(ae, ae)
        >>> matched.partners.tolist() == list(range(ae.n_latents))
        True
    """
    first, second = comparable(a, b, force)
    cross, kernel, other = cross_kernel(first, second), cross_kernel(first, first), cross_kernel(second, second)
    return hungarian_from_kernels(cross, kernel, other, sign_free)


def hungarian_from_kernels(
    cross: Float[Tensor, "k g"], kernel: Float[Tensor, "k k"], other: Float[Tensor, "g g"], sign_free: bool = False
) -> HungarianSimilarity:
    """Sim_H from M, K and K'."""
    latents, partners = assignment(cross.abs() if sign_free else cross)
    products = cross[latents, partners].double()
    lengths = (kernel.diagonal()[latents].double() * other.diagonal()[partners].double()).sqrt()
    cosines = torch.where(lengths > 0, products / torch.where(lengths > 0, lengths, 1), 0)
    matched = kernel[latents[:, None], latents]
    if sign_free:
        signs = torch.where(products < 0, -1, 1).to(kernel.dtype)
        matched *= signs[:, None] * signs
    agreement = max(0.0, inner(matched, other[partners[:, None], partners]))
    norm, other_norm = squared_norm(kernel) ** 0.5, squared_norm(other) ** 0.5
    sizes = float(kernel.diagonal().double().sum()) * float(other.diagonal().double().sum())
    return HungarianSimilarity(
        similarity=_share(agreement**0.5, other_norm),
        symmetric=_share(agreement**0.5, (norm * other_norm) ** 0.5),
        alignment=_share(float(products.abs().sum() if sign_free else products.sum()), sizes**0.5),
        latents=latents,
        partners=partners,
        cosines=cosines,
        sign_free=sign_free,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def assignment(scores: Float[Tensor, "k g"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
    """The pairs that maximize the sum of their scores, each latent used at most once."""
    from scipy.optimize import linear_sum_assignment  # imported here: the import takes longer than most reports

    rows, columns = linear_sum_assignment(scores.cpu().numpy(), maximize=True)
    return torch.from_numpy(rows).to(scores.device), torch.from_numpy(columns).to(scores.device)


def comparable(a: Dictionary | Forms, b: Dictionary | Forms, force: bool = False) -> tuple[Forms, Forms]:
    """Both autoencoders in common coordinates, if they read the same vectors, else raise.

    `force` allows different models and hook points.
    """
    first, second = as_forms(a), as_forms(b)
    second = second.to(first.left.device)
    if first.d_model != second.d_model:
        raise ValueError(
            f"d_model={first.d_model} and d_model={second.d_model} differ: these autoencoders read different vectors; "
            "compare runs of one width"
        )
    for what in ("model", "hook_point"):
        mine, other = (getattr(getattr(each, "provenance", None), what, None) for each in (a, b))
        if not force and mine and other and mine != other:
            raise ValueError(
                f"{what} '{mine}' and '{other}' differ: these autoencoders read different vectors; compare runs "
                "of one hook point, or force it (force=True, --force)"
            )
    common = in_common_coordinates([first, second])
    return common[0], common[1]


@torch.no_grad()
def in_common_coordinates(autoencoders: Sequence[Forms]) -> list[Forms]:
    """Forms of one width in the coordinates of the first one's lens, or on the raw unit token if any of them is raw."""
    first = autoencoders[0]
    if all(same_lens(first, other) for other in autoencoders):
        return list(autoencoders)
    if all(isinstance(each.lens, AffineLens) for each in autoencoders):
        return [first, *(_through_lens_of(first, other) for other in autoencoders[1:])]
    return [each.raw() for each in autoencoders]


def _through_lens_of(first: Forms, other: Forms) -> Forms:
    """The same forms on x̃₁: factors Aᵀl with x̃₂ = A x̃₁."""
    mine, lens = first.lens, other.lens
    assert isinstance(mine, AffineLens)
    assert isinstance(lens, AffineLens)
    shift, constant = mine.centre.double() - lens.centre.double(), mine.constant.double()

    def moved(factors: Float[Tensor, "h w"]) -> Float[Tensor, "h w"]:
        on_v, on_constant = factors[:, :-1], factors[:, -1:]
        beside = (on_v @ shift)[:, None] + lens.constant.double() * on_constant
        return torch.cat([on_v, beside / constant], dim=1)

    return other.moved(moved, mine)


@torch.no_grad()
def without_mean(autoencoder: Dictionary | Forms, mean: Float[Tensor, " d"] | None = None) -> Forms:
    """The quadratic block of every form alone: W ← pWp with p = I − mmᵀ, m the direction of the mean token.

    Two dictionaries may agree in nothing but how they see the mean token. Compare them before and after.

    Args:
        autoencoder: Any dictionary.
        mean: The mean unit token, or any other direction to leave out. An affine lens has the mean as its own
            coordinate, and takes none.

    Returns:
        Forms, for every function of geometry.

    Example:
        >>> curved = geometry.without_mean(ae)
        >>> geometry.frobenius_similarity(curved, curved)
        1.0
    """
    forms = as_forms(autoencoder)
    unit = _direction_of_mean(forms, mean).to(forms.left.device)

    def across(factors: Float[Tensor, "h w"]) -> Float[Tensor, "h w"]:
        return factors - (factors @ unit)[:, None] * unit

    return forms.moved(across)


def _direction_of_mean(forms: Forms, mean: Tensor | None) -> Float[Tensor, " w"]:
    """m in the coordinates of the forms."""
    if isinstance(forms.lens, AffineLens):
        if mean is not None:
            raise ValueError("the affine lens of this dictionary has a mean already; leave `mean` out")
        return torch.eye(forms.lens.width, dtype=torch.float64)[-1]
    if mean is None:
        raise ValueError(
            "this dictionary reads raw tokens and does not know their mean; give mean=, the mean unit token"
        )
    if mean.shape != (forms.d_model,):
        raise ValueError(f"mean has shape {tuple(mean.shape)}, but the dictionary reads {forms.d_model} numbers")
    length: Tensor = torch.linalg.vector_norm(mean.double())
    if not (length > 0 and length.isfinite()):
        raise ValueError(f"mean has length {length.item()}; give a vector that is finite and not zero")
    return mean.double() / length


def random_forms(forms: Forms, seed: int) -> Forms:
    """Forms of a newly initialized dictionary of the same sizes, to measure agreement by chance."""
    generator, (k, h) = torch.Generator().manual_seed(seed), forms.mixing.shape
    left = initial_matrix("orthogonal", (h, forms.width), generator)
    right = left if forms.same_factors else initial_matrix("orthogonal", (h, forms.width), generator)
    mixing: Mixing = Identity(k)
    if forms.mixing.is_dense:
        mixing = initial_dense((k, h), "orthogonal", generator)
    elif forms.mixing.chooses_atoms:
        mixing = initial_composite((k, h), forms.mixing.n_entries / (k * h), "orthogonal", generator)
    is_same, left = right is left, left.to(forms.left)
    return replace(forms, left=left, right=left if is_same else right.to(left), mixing=mixing.to(left.device))


def randomly_initialized(dictionary: Dictionary, seed: int) -> Dictionary:
    """A newly initialized dictionary of the same settings and lens, with as many entries of C as there are now."""
    settings, density = dictionary.settings, dictionary.facts().get("mixing_density")
    if isinstance(settings, Composite) and density is not None:
        settings = replace(settings, atoms_per_latent=density * settings.atoms, initial_density=density)
    lens = dictionary.lens if isinstance(dictionary.lens, AffineLens) else None
    made = settings.build(dictionary.d_model, lens=lens, seed=seed)
    made.provenance = dictionary.provenance
    like = next(dictionary.parameters())
    return made.to(device=like.device, dtype=like.dtype)
