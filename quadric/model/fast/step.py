"""The quantities of `PlainStep`, as fast as the size of the dictionary allows. Three ways to the error:

    kernel    K is held in memory, for up to 16,384 atoms
    lifted    ‖X̂‖² in the product space, from a few latents per token or from all
    blocked   zᵀKz = wᵀGw from blocks of G, w = Cᵀz

K is made before the latents: the backward pass runs in reverse and has freed the tensors of the tokens by the time the
gradient of G needs memory.
"""

from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.bilinear import BilinearAutoencoder
from quadric.model.dictionary import TokenErrors
from quadric.model.fast.kernel import atom_gram, dense_kernel, kernel_overlap, sparse_kernel
from quadric.model.fast.large import blocked_quadratic_form, sampled_overlap
from quadric.model.fast.latents import (
    atom_activations,
    kept_latents,
    latent_errors,
    latent_norms,
    sparse_latents,
    strongest,
)
from quadric.model.fast.lifted import (
    SparseRows,
    few_latents_form,
    form_norms,
    lifted_reconstruction,
    product_width,
    unpacked,
)
from quadric.model.fast.products import csr_pattern, dense_mix, gradient_products_in
from quadric.model.fast.shared import (
    GramRows,
    Share,
    atomic_kernel_part,
    dense_kernel_part,
    gram_rows,
    sparse_kernel_part,
)
from quadric.model.fast.sparse import Sparse
from quadric.model.lens import PaperLens
from quadric.model.mixing import Identity, Mixing
from quadric.model.objective import kernel_error, quadratic_form
from quadric.model.settings import LARGEST_KERNEL
from quadric.model.step import LatentNorms, PlainStep

ErrorPath = Literal["kernel", "blocked", "lifted"]
"""How zᵀKz is computed."""
DEFAULT_BLOCK = 4_096
"""Atoms whose Gram matrix is held at once, where there are too many for one."""


def error_path(
    *,
    n_latents: int,
    n_hidden: int,
    width: int,
    is_sparse: bool,
    symmetric: bool = True,
    top: int | None = None,
    entries: int | None = None,
) -> ErrorPath:
    """The way that a dictionary of this size computes its error.

    K is held in memory for up to 16,384 atoms. Beyond, blocks of G take 3h² FLOPs per token; the product space takes
    6kp for all latents, and 6w² for each atom of a few; the smaller number decides. The product space needs the entries
    of C.

    Args:
        n_latents: k.
        n_hidden: h.
        width: w, the coordinates that the forms read.
        is_sparse: whether C is stored by its entries, or is the identity.
        symmetric: whether forms are symmetric, p = w(w+1)/2; otherwise p = w².
        top: latents that reconstruct each token; all by default.
        entries: of C; one per atom by default. They count where a few latents reconstruct each token.

    Returns:
        "kernel", "blocked" or "lifted".

    Example:
        >>> error_path(n_latents=65_536, n_hidden=131_072, width=577, is_sparse=True)
        'blocked'
        >>> error_path(n_latents=65_536, n_hidden=131_072, width=577, is_sparse=True, top=32)
        'lifted'
    """
    if n_hidden <= LARGEST_KERNEL:
        return "kernel"
    if not is_sparse:
        return "blocked"
    if top is not None and top < n_latents:
        atoms_of_token = top * (n_hidden if entries is None else entries) / n_latents
        flops = 6 * width**2 * atoms_of_token
    else:
        flops = 6.0 * n_latents * product_width(width, symmetric)
    return "lifted" if flops <= 3 * n_hidden**2 else "blocked"


def path_of(dictionary: BilinearAutoencoder, top: int | None = None) -> ErrorPath:
    """How a dictionary computes its error; in blocks if it was given a block size."""
    if dictionary.block_size is not None:
        return "blocked"
    return error_path(
        n_latents=dictionary.n_latents,
        n_hidden=dictionary.n_hidden,
        width=dictionary.left.shape[1],
        is_sparse=isinstance(dictionary.mixing, Identity | Sparse),
        symmetric=dictionary.symmetric,
        top=top,
        entries=None if top is None else dictionary.mixing.n_entries,
    )


class FastStep(PlainStep):
    """`PlainStep` with hand-written gradients, sparse products and as little memory as possible."""

    def path(self, top: int | None = None) -> ErrorPath:
        """How the error is computed."""
        return path_of(self.dictionary, top)

    @staticmethod
    def factors_of(
        dictionary: BilinearAutoencoder, dtype: torch.dtype, *, raw: bool = False
    ) -> tuple[Float[Tensor, "u w"], Float[Tensor, "u w"]]:
        left, right = dictionary.factors(dtype, raw=raw)
        used = dictionary.mixing.used_atoms
        if used is None:
            return left, right
        left_used = left.index_select(0, used)
        return left_used, left_used if right is left else right.index_select(0, used)

    @staticmethod
    def latents_of(dictionary: BilinearAutoencoder, inputs: Float[Tensor, "n w"]) -> Float[Tensor, "n k"]:
        return latents_of(dictionary.mixing, inputs, *FastStep.factors_of(dictionary, inputs.dtype))

    @staticmethod
    def kernel_of(dictionary: BilinearAutoencoder, dtype: torch.dtype, *, raw: bool = False) -> Float[Tensor, "k k"]:
        left, right = FastStep.factors_of(dictionary, dtype, raw=raw)
        return kernel_of(dictionary.mixing, atom_gram(left, right, dictionary.symmetric))

    @staticmethod
    def errors_of(
        dictionary: BilinearAutoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
    ) -> TokenErrors:
        return _token_errors(dictionary, tokens, latents)

    def backward(self, loss: Float[Tensor, ""], gradient_dtype: str = "auto") -> None:
        with gradient_products_in(gradient_dtype):
            super().backward(loss)

    @cached_property
    def used_factors(self) -> tuple[Tensor, Tensor]:
        return FastStep.factors_of(self.dictionary, self.inputs.dtype)

    @staticmethod
    def used_weights(dictionary: BilinearAutoencoder, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n u"]:
        weights, used = dictionary.mixing.unmix(latents), dictionary.mixing.used_atoms
        return weights if used is None else weights.index_select(1, used)

    @cached_property
    def rows(self) -> SparseRows:
        """The entries of C."""
        rows = sparse_rows_of(self.dictionary.mixing, self.inputs)
        if rows is None:
            raise ValueError(
                "an overlap, or an error of the strongest latents (top), needs the entries of C, and a dense C of "
                f"{self.dictionary.n_hidden} atoms is multiplied in blocks; leave it out, or start with an "
                "initial_density below 0.01"
            )
        return rows

    @cached_property
    def kernel(self) -> Float[Tensor, "k k"]:
        dictionary = self.dictionary
        if self.path() != "kernel":
            raise ValueError(
                f"the kernel of {dictionary.n_latents} latents and {dictionary.n_hidden} atoms is not formed; "
                "use step.errors() and step.overlap(), which need none"
            )
        left, right = self.used_factors
        if self.processes.world_size == 1:
            return kernel_of(dictionary.mixing, atom_gram(left, right, dictionary.symmetric))
        rows = gram_rows(left, right, dictionary.symmetric, Share(*self.processes))
        return self.total(kernel_part_of(dictionary.mixing, rows))

    @cached_property
    def z(self) -> Float[Tensor, "n k"]:
        if self.path() == "kernel" and self.loss:
            _ = self.kernel  # first, see above
        return latents_of(self.dictionary.mixing, self.inputs, *self.used_factors)

    def errors(self, top: int | None = None) -> Float[Tensor, " n"]:
        top = None if top is not None and top >= self.dictionary.n_latents else top
        path = self.path(top)
        if path == "kernel":
            kept = None
            kernel, z = self.kernel, self.z
            if top is not None:
                norms = kernel.detach().diagonal().clamp(min=0).sqrt()
                kept = kept_latents(strongest(z, norms, top), z.shape[1])
            return latent_errors(z, kernel, kept)
        return self._lifted_errors(top) if path == "lifted" or top is not None else self._blocked_errors()

    def _blocked_errors(self) -> Float[Tensor, " n"]:
        dictionary, weights = self.dictionary, self.used_weights(self.dictionary, self.z)
        size = dictionary.block_size or DEFAULT_BLOCK
        return kernel_error(blocked_quadratic_form(weights, *self.used_factors, dictionary.symmetric, size), self.z)

    def _lifted_errors(self, top: int | None) -> Float[Tensor, " n"]:
        symmetric = self.dictionary.symmetric
        if top is None:
            rebuilt = lifted_reconstruction(self.z, *self.used_factors, self.rows, symmetric)
            return kernel_error(rebuilt.square().sum(-1), self.z)
        norms = form_norms(*self.used_factors, self.rows, symmetric)
        indices = strongest(self.z, norms, top)
        chosen = self.z.mT.gather(0, indices.mT).mT
        return kernel_error(few_latents_form(chosen, indices, *self.used_factors, self.rows, symmetric), chosen)

    def norms(self, offset: Float[Tensor, " k"] | None) -> LatentNorms:
        offset = self.z.new_zeros(self.z.shape[1]) if offset is None else offset.to(self.z.dtype)
        l1, l2_squared = latent_norms(self.z, offset)
        return LatentNorms(self.total(l1), self.total(l2_squared))

    def overlap(self) -> Float[Tensor, ""]:
        if self.path() == "kernel":
            return kernel_overlap(self.kernel)
        return sampled_overlap(*self.used_factors, self.rows, self.dictionary.symmetric, seed=self.index)


# Errors of given latents, as evaluation needs them: in the coordinates of the lens, and of uuᵀ.


def _token_errors(
    dictionary: BilinearAutoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> TokenErrors:
    """Error of each unit token's reconstruction from all of its latents.

    ‖Û − uuᵀ‖² = zᵀK'z − 2z·y + 1 with the forms W' = TW̃Tᵀ on u, their kernel K' and y_i = uᵀW'_i u.
    """
    if path_of(dictionary) == "lifted":
        return _lifted_errors(dictionary, tokens, latents)
    own = kernel_error(_quadratic_form(dictionary, latents), latents)
    if isinstance(dictionary.lens, PaperLens):
        return TokenErrors(product_space=own, objective=own)
    left, right = FastStep.factors_of(dictionary, tokens.dtype, raw=True)
    scaled = dictionary.at_own_scale(tokens, latents)
    cross = (scaled * latents_of(dictionary.mixing, tokens, left, right)).sum(-1)
    raw = _quadratic_form(dictionary, scaled, raw=True) - 2 * cross + 1
    return TokenErrors(product_space=raw, objective=own)


def _quadratic_form(dictionary: BilinearAutoencoder, latents: Tensor, *, raw: bool = False) -> Tensor:
    """zᵀKz per token, of the forms on x̃ or on the raw unit token."""
    if path_of(dictionary) == "kernel":
        return quadratic_form(latents, FastStep.kernel_of(dictionary, latents.dtype, raw=raw))
    left, right = FastStep.factors_of(dictionary, latents.dtype, raw=raw)
    weights = FastStep.used_weights(dictionary, latents)
    return blocked_quadratic_form(weights, left, right, dictionary.symmetric, dictionary.block_size or DEFAULT_BLOCK)


def _lifted_errors(
    dictionary: BilinearAutoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> TokenErrors:
    """Both errors from one reconstruction: that of uuᵀ is Û = TX̃̂Tᵀ, and z·y = uᵀÛu."""
    left, right = FastStep.factors_of(dictionary, latents.dtype)
    rows = sparse_rows_of(dictionary.mixing, latents)
    assert rows is not None
    rebuilt = lifted_reconstruction(latents, left, right, rows, dictionary.symmetric)
    own = kernel_error(rebuilt.square().sum(-1), latents)
    if isinstance(dictionary.lens, PaperLens):
        return TokenErrors(product_space=own, objective=own)
    (n, d), width, to_raw = tokens.shape, left.shape[1], dictionary.lens.to_raw
    scale = dictionary.at_own_scale(tokens, tokens.new_ones(n, 1))
    half = to_raw(unpacked(rebuilt * scale, width, dictionary.symmetric).flatten(0, 1))
    raw = to_raw(half.view(n, width, d).mT.flatten(0, 1)).view(n, d, d)
    cross = (raw @ tokens[..., None])[..., 0].mul(tokens).sum(-1)
    return TokenErrors(product_space=raw.square().sum((1, 2)) - 2 * cross + 1, objective=own)


# Latents and kernels for every storage of C: the identity, a dense matrix, or entries.


def latents_of(
    mixing: Mixing, tokens: Float[Tensor, "n d"], left: Float[Tensor, "u d"], right: Float[Tensor, "u d"]
) -> Float[Tensor, "n k"]:
    """z = C((Lx)∘(Rx)), given the factors of the used atoms."""
    if isinstance(mixing, Sparse):
        return sparse_latents(tokens, left, right, mixing.values.to(tokens.dtype), mixing.used_pattern)
    atoms = atom_activations(tokens, left, right)
    return atoms if isinstance(mixing, Identity) else dense_mix(mixing.matrix().to(atoms.dtype), atoms)


def kernel_of(mixing: Mixing, gram: Float[Tensor, "u u"]) -> Float[Tensor, "k k"]:
    """K = CGCᵀ, given the Gram matrix of the used atoms."""
    if isinstance(mixing, Identity):
        return gram
    if isinstance(mixing, Sparse):
        return sparse_kernel(mixing.values.to(gram.dtype), mixing.used_pattern, gram)
    return dense_kernel(mixing.matrix().to(gram.dtype), gram)


def kernel_part_of(mixing: Mixing, rows: GramRows) -> Float[Tensor, "k k"]:
    """One process's part of K, given its rows of the Gram matrix; K is the sum over processes."""
    if isinstance(mixing, Identity):
        return atomic_kernel_part(rows)
    if isinstance(mixing, Sparse):
        return sparse_kernel_part(mixing.values.to(rows.numbers.dtype), mixing.used_pattern, rows)
    return dense_kernel_part(mixing.matrix().to(rows.numbers.dtype), rows)


def sparse_rows_of(mixing: Mixing, like: Tensor) -> SparseRows | None:
    """The entries of C among the used atoms, in the precision of `like`; None if C is stored densely."""
    if isinstance(mixing, Sparse):
        return SparseRows(mixing.values.to(like.dtype), mixing.used_pattern)
    if not isinstance(mixing, Identity):
        return None
    numbers = torch.arange(mixing.shape[0], device=like.device)
    return SparseRows(like.new_ones(mixing.shape[0]), csr_pattern(numbers, numbers, mixing.shape))
