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
from quadric.model.fast.blocked import blocked_quadratic_form
from quadric.model.fast.kernel import atom_gram, kernel_overlap
from quadric.model.fast.latents import kept_latents, latent_errors, latent_norms, strongest
from quadric.model.fast.lifted import (
    SparseRows,
    few_latents_form,
    form_norms,
    lifted_reconstruction,
    product_width,
)
from quadric.model.fast.sampled import sampled_overlap
from quadric.model.fast.shared import Share, gram_rows
from quadric.model.fast.storage import kernel_of, kernel_part_of, latents_of, sparse_rows_of
from quadric.model.mixing import Identity, Sparse
from quadric.model.objective import kernel_error
from quadric.model.settings import LARGEST_KERNEL
from quadric.model.step import LatentNorms, MeanForm, PlainStep

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
    def latents_of(dictionary: BilinearAutoencoder, inputs: Float[Tensor, "n w"]) -> Float[Tensor, "n k"]:
        return latents_of(dictionary.mixing, inputs, *dictionary.used_factors(inputs.dtype))

    @staticmethod
    def kernel_of(dictionary: BilinearAutoencoder, dtype: torch.dtype, *, raw: bool = False) -> Float[Tensor, "k k"]:
        left, right = dictionary.used_factors(dtype, raw=raw)
        return kernel_of(dictionary.mixing, atom_gram(left, right, dictionary.symmetric))

    @cached_property
    def used_factors(self) -> tuple[Tensor, Tensor]:
        """L and R of the atoms that some latent uses."""
        return self.dictionary.used_factors(self.inputs.dtype)

    @cached_property
    def rows(self) -> SparseRows:
        """The entries of C."""
        rows = sparse_rows_of(self.dictionary.mixing, self.inputs)
        assert rows is not None
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
        if top is not None and not isinstance(self.dictionary.mixing, Identity | Sparse):
            raise ValueError(
                f"error.top={top} needs the entries of C, and a dense C of {self.dictionary.n_hidden} atoms is "
                "multiplied in blocks; leave top out, or start with an initial_density below 0.01"
            )
        return self._lifted_errors(top) if path == "lifted" or top is not None else self._blocked_errors()

    def _blocked_errors(self) -> Float[Tensor, " n"]:
        dictionary, weights = self.dictionary, self.dictionary.mixing.unmix(self.z)
        if (used := dictionary.mixing.used_atoms) is not None:
            weights = weights.index_select(1, used)
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
        if not isinstance(self.dictionary.mixing, Identity | Sparse):
            raise ValueError(
                f"overlap needs the entries of C, and a dense C of {self.dictionary.n_hidden} atoms is multiplied in "
                "blocks; leave it out, or start with an initial_density below 0.01"
            )
        return sampled_overlap(*self.used_factors, self.rows, self.dictionary.symmetric, seed=self.index)

    def mean_form(self) -> MeanForm:
        dictionary, (width, k) = self.dictionary, (self.inputs.shape[1], self.z.shape[1])
        sums = self.total(torch.cat([self.z.sum(0), (self.inputs.mT @ self.inputs).flatten()]))
        means = sums / self.n_tokens
        left, right = dictionary.used_factors(self.inputs.dtype)
        weights, used = dictionary.mixing.unmix(means[None, :k])[0], dictionary.mixing.used_atoms
        if used is not None:
            weights = weights.index_select(0, used)
        # X̂ is linear in z, so its mean is that of the mean latents.
        rebuilt = (left * weights[:, None]).mT @ right
        rebuilt = (rebuilt + rebuilt.mT) / 2 if dictionary.symmetric else rebuilt
        return MeanForm(rebuilt, means[k:].view(width, width))
