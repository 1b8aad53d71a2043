"""A latent, or a sum of latents, as a factored symmetric matrix.

Latents are nonlinear in the token but linear in their weights: w₁ + w₂ ("w₁ and w₂") and w₁ − w₂ ("w₁ and not w₂")
are forms too, computed without data.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import as_forms
from quadric.geometry.spectra import Eigenpairs, eigenpairs
from quadric.model import Dictionary
from quadric.model.fast.kernel import cross_gram
from quadric.model.forms import Forms


@dataclass(frozen=True, eq=False, repr=False)
class Form:
    """W = Σ_j w_j ½(l_j r_jᵀ + r_j l_jᵀ), stored as its terms; only `matrix` builds the d×d matrix.

    `+`, `-`, `*` and `/` by a number, and `sum` return forms. Values are computed in float64. A latent's form is in the
    coordinates of its lens: those of the token, or [u − μ; c] with an affine lens, which has one more.
    """

    left: Float[Tensor, "m d"]
    right: Float[Tensor, "m d"]
    weights: Float[Tensor, " m"]

    @classmethod
    def of_direction(cls, direction: Float[Tensor, " d"]) -> "Form":
        """The rank-1 form wwᵀ: energy along a direction."""
        return cls(direction[None], direction[None], direction.new_ones(1, dtype=torch.float64))

    @classmethod
    def total(cls, forms: Iterable["Form"]) -> "Form":
        """The sum of one or more forms."""
        parts = list(forms)
        if not parts:
            raise ValueError("the sum of no forms has no width; give at least one form")
        if len(widths := {form.d_model for form in parts}) > 1:
            raise ValueError(f"forms of widths {sorted(widths)} cannot be added; take latents of one hook point")
        return cls(
            torch.cat([form.left for form in parts]),
            torch.cat([form.right for form in parts]),
            torch.cat([form.weights for form in parts]),
        )

    def __repr__(self) -> str:
        return f"Form({self.n_terms} terms, d_model={self.d_model})"

    @property
    def d_model(self) -> int:
        """Width of the vectors that it reads: of the tokens, or of `ae.lens(tokens)` with an affine lens."""
        return self.left.shape[1]

    @property
    def n_terms(self) -> int:
        """Number of terms; the rank is at most twice that."""
        return self.left.shape[0]

    def __call__(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """z = xᵀWx of every vector, without scaling it; with an affine lens, give `ae.lens(tokens)`."""
        tokens = tokens.double()
        return ((tokens @ self.left.double().mT) * (tokens @ self.right.double().mT)) @ self.weights.double()

    def eigenpairs(self) -> Eigenpairs:
        """Eigenvalues by |λ| descending and their eigenvectors (d, r), where r is the rank."""
        values, vectors = eigenpairs(self.left.double(), self.right.double(), self.weights.double())
        rank = int(values.count_nonzero())
        return Eigenpairs(values[:rank], vectors[:, :rank])

    def trace(self) -> float:
        """tr W = Σ_j w_j l_j·r_j."""
        return float((self.left.double() * self.right.double()).sum(-1) @ self.weights.double())

    def inner(self, other: "Form") -> float:
        """⟨W, W'⟩_F."""
        gram = cross_gram(self.left.double(), self.right.double(), other.left.double(), other.right.double())
        return float(self.weights.double() @ gram @ other.weights.double())

    def norm(self) -> float:
        """‖W‖_F."""
        return math.sqrt(max(0.0, self.inner(self)))

    def cosine(self, other: "Form") -> float:
        """⟨W, W'⟩ / ‖W‖‖W'‖: 1 for the same shape, 0 for orthogonal forms and for the zero form."""
        scale = self.norm() * other.norm()
        return self.inner(other) / scale if scale else 0.0

    def matrix(self) -> Float[Tensor, "d d"]:
        """W itself."""
        half = self.left.double().mT @ (self.weights.double()[:, None] * self.right.double())
        return (half + half.mT) / 2

    def __add__(self, other: object) -> "Form":
        return Form.total([self, other]) if isinstance(other, Form) else NotImplemented

    def __radd__(self, other: object) -> "Form":
        # `sum` starts from the number 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> "Form":
        return self + -other if isinstance(other, Form) else NotImplemented

    def __neg__(self) -> "Form":
        return self * -1.0

    def __mul__(self, factor: object) -> "Form":
        return Form(self.left, self.right, self.weights * float(factor)) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: object) -> "Form":
        return (
            Form(self.left, self.right, self.weights / float(divisor)) if isinstance(divisor, Real) else NotImplemented
        )


@torch.no_grad()
def latent_form(autoencoder: Dictionary | Forms, latent: int) -> Form:
    """W_i of one latent, as a sum over the atoms that feed into it; ddᵀ for a direction d of a linear dictionary.

    Args:
        autoencoder: Any dictionary.
        latent: Index of the latent.

    Returns:
        The form; it can be added, subtracted, scaled and evaluated without a d×d matrix.

    Example:
        >>> first, second = geometry.latent_form(ae, 0), geometry.latent_form(ae, 1)
        >>> abs(first.cosine(second)) <= 1
        True
    """
    bilinear = as_forms(autoencoder)
    if not 0 <= latent < bilinear.n_latents:
        raise IndexError(f"latent {latent} is outside 0 … {bilinear.n_latents - 1}")
    atoms, weights = bilinear.mixing.row(latent)
    kept = weights != 0
    atoms, weights = atoms[kept].to(bilinear.left.device), weights[kept].detach().to(bilinear.left.device).double()
    dtype = torch.promote_types(bilinear.left.dtype, torch.float32)
    return Form(bilinear.left.detach()[atoms].to(dtype), bilinear.right.detach()[atoms].to(dtype), weights)


def spectrum(autoencoder: Dictionary | Forms, latent: int) -> Eigenpairs:
    """Compute the eigenvalues and eigenvectors of one latent's W_i.

    W_i = U diag(λ) Uᵀ to float64 rounding; eigenvalues below that rounding count as zero.

    Args:
        autoencoder: Any dictionary; a direction d of a linear one counts as the form ddᵀ.
        latent: Index of the latent.

    Returns:
        Eigenvalues by |λ| descending and eigenvectors (d, r) as columns, where r is the rank of W_i.

    Example:
        >>> eigenvalues, eigenvectors = geometry.spectrum(ae, 3)
        >>> bool((eigenvalues.abs().diff() <= 0).all())  # the largest first
        True
    """
    return latent_form(autoencoder, latent).eigenpairs()
