"""Reconstructions in the product space, for dictionaries with more atoms than that space has dimensions.

X̂ = Σ_i z_i W_i is a w×w matrix per token, whatever the size of the dictionary, and zᵀKz = ‖X̂‖². So neither G nor K is
needed. Forms are sums of outer products,

    F_i = Σ_j C_ij l_j r_jᵀ,    W_i = ½(F_i + F_iᵀ),

and so is the reconstruction of a token from a few of its latents, with weights z_i C_ij. The products are computed for
a few latents or tokens at a time, in the forward and again in the backward pass, and never held for all of them.

    few latents per token   a sum of outer products per token       6 w² FLOPs per token, latent and atom of the latent
    all latents             forms times the latents of all tokens   6 p FLOPs per token and latent, with p = w(w+1)/2

A symmetric matrix is packed into the p entries on and above its diagonal, those above it times √2, which keeps inner
products. Printed atoms l rᵀ have forms without symmetry, which are not packed: p = w².
"""

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.kernel import cross_gram
from quadric.model.fast.products import MOST_KEPT, CsrPattern

NUMBERS_AT_ONCE = 2**22
"""Entries of forms, and of the factors that they are made from, that are held at once: 16 MiB each in float32."""


class SparseRows(NamedTuple):
    """The entries of C: which atoms make up a latent, with which weights."""

    values: Float[Tensor, " nnz"]
    pattern: CsrPattern


def product_width(width: int, symmetric: bool = True) -> int:
    """Dimensions of the space of forms on so many coordinates."""
    return width * (width + 1) // 2 if symmetric else width * width


class _Terms(NamedTuple):
    """Weighted outer products whose sums are some matrices, as many for each; missing ones have weight zero."""

    atoms: Int[Tensor, "b s"]
    weights: Float[Tensor, "b s"]

    def rows(self, factor: Float[Tensor, "u w"]) -> Float[Tensor, "b s w"]:
        """The atoms' rows of a factor."""
        return factor.index_select(0, self.atoms.flatten()).view(*self.atoms.shape, -1)

    def sums(self, left: Tensor, right: Tensor) -> Float[Tensor, "b w w"]:
        """Σ_j weight_j l_j r_jᵀ of each."""
        return self.rows(left).mul_(self.weights[..., None]).mT @ self.rows(right)

    def add_gradients(
        self, grad: Float[Tensor, "b w w"], left: Tensor, right: Tensor, grad_left: Tensor, grad_right: Tensor
    ) -> Float[Tensor, "b s"]:
        """Add the gradients of the factors, and return those of the weights: l_jᵀ D r_j for the gradient D of a sum."""
        lefts, rights, atoms = self.rows(left), self.rows(right), self.atoms.flatten()
        along = lefts @ grad
        grad_weights: Tensor = (along * rights).sum(-1)
        grad_right.index_add_(0, atoms, along.mul_(self.weights[..., None]).flatten(0, 1))
        along = (rights @ grad.mT).mul_(self.weights[..., None])
        grad_left.index_add_(0, atoms, along.flatten(0, 1))
        return grad_weights


@torch.no_grad()
def packed_forms(
    latents: Int[Tensor, " b"],
    left: Float[Tensor, "u w"],
    right: Float[Tensor, "u w"],
    rows: SparseRows,
    symmetric: bool = True,
) -> Float[Tensor, "b p"]:
    """The forms of some latents as vectors, see `packed`; not differentiable.

    Args:
        latents: which ones.
        left: L.
        right: R.
        rows: C.
        symmetric: False for printed atoms l rᵀ.
    """
    forms = left.new_zeros(len(latents), product_width(left.shape[1], symmetric))
    for block in _form_blocks(rows.pattern, left.shape[1], latents):
        forms[block.places] = packed(block.terms(rows).sums(left, right), symmetric)
    return forms


class _Block(NamedTuple):
    """Some tokens with about equally many atoms in their latents, or some latents with about equally many atoms."""

    places: Int[Tensor, " b"]
    """Where they stand among those that were asked for."""
    entries: Int[Tensor, "b s"]
    """Positions among the entries of C of their latents' atoms."""
    slots: Int[Tensor, "b s"]
    """Which of the token's latents the atom is of."""
    exists: Bool[Tensor, "b s"]

    def terms(self, rows: SparseRows, latents: Float[Tensor, "b c"] | None = None) -> _Terms:
        """Their sums of outer products: of the latents times C, or forms."""
        values = rows.values[self.entries]
        weights = values if latents is None else latents.gather(1, self.slots) * values
        return _Terms(rows.pattern.columns[self.entries], weights * self.exists)


def _blocks(indices: Int[Tensor, "n c"], pattern: CsrPattern, n_numbers: Callable[[int], int]) -> Iterator[_Block]:
    """All tokens, those with most atoms first, as many at once as `NUMBERS_AT_ONCE` allows."""
    ends = pattern.row_starts.diff()[indices].cumsum(1)
    order = ends[:, -1].argsort(descending=True, stable=True)
    start = 0
    while start < len(order):
        longest = max(1, int(ends[order[start], -1]))
        tokens = order[start : start + max(1, NUMBERS_AT_ONCE // n_numbers(longest))]
        yield _block(tokens, indices[tokens], ends[tokens], longest, pattern)
        start += len(tokens)


def _token_blocks(indices: Int[Tensor, "n c"], pattern: CsrPattern, width: int) -> Iterator[_Block]:
    """Tokens by their latents."""
    return _blocks(indices, pattern, lambda longest: width * (width + 2 * longest))


def _block(tokens: Tensor, indices: Tensor, ends: Tensor, longest: int, pattern: CsrPattern) -> _Block:
    """Lays the entries of a token's latents one after the other; `ends` are where each latent's stop."""
    places = torch.arange(longest, device=ends.device).expand(len(tokens), -1).contiguous()
    exists = places < ends[:, -1:]
    slots = torch.searchsorted(ends, places, right=True).clamp_(max=ends.shape[1] - 1)
    # The k-th entry of a token is the one that many places after its latent's first, less those of latents before it.
    from_end = ends.gather(1, slots) - places
    entries = pattern.row_starts[indices.gather(1, slots) + 1] - from_end
    return _Block(tokens, torch.where(exists, entries, 0), slots, exists)


def _form_blocks(pattern: CsrPattern, width: int, latents: Tensor | None = None) -> Iterator[_Block]:
    """Latents that have atoms, as blocks of tokens with one latent each."""
    latents = torch.arange(pattern.shape[0], device=pattern.columns.device) if latents is None else latents

    def n_numbers(longest: int) -> int:  # factors; a form, or the Gram matrix of its atoms
        return 2 * width * longest + max(width, longest) ** 2

    return (block for block in _blocks(latents[:, None], pattern, n_numbers) if block.exists.any())


@torch.no_grad()
def form_norms(
    left: Float[Tensor, "u w"], right: Float[Tensor, "u w"], rows: SparseRows, symmetric: bool = True
) -> Float[Tensor, " k"]:
    """‖W_i‖ = √K_ii of every latent, from the Gram matrix of its own atoms alone; not differentiable.

    Args:
        left: L.
        right: R.
        rows: C.
        symmetric: False for printed atoms l rᵀ.
    """
    squares = left.new_zeros(rows.pattern.shape[0])
    for block in _form_blocks(rows.pattern, left.shape[1]):
        terms = block.terms(rows)
        lefts, rights = terms.rows(left), terms.rows(right)
        gram = cross_gram(lefts, rights, lefts, rights, symmetric)
        squares[block.places] = (gram @ terms.weights[..., None])[..., 0].mul_(terms.weights).sum(1)
    return squares.clamp_(min=0).sqrt_()


def few_latents_form(
    chosen: Float[Tensor, "n c"],
    indices: Int[Tensor, "n c"],
    left: Float[Tensor, "u w"],
    right: Float[Tensor, "u w"],
    rows: SparseRows,
    symmetric: bool = True,
) -> Float[Tensor, " n"]:
    """‖Σ_i z_i W_i‖² per token, over a few latents of the token.

    Args:
        chosen: their z.
        indices: which latents they are.
        left: L.
        right: R.
        rows: C.
        symmetric: False for printed atoms l rᵀ.
    """
    return _FewLatentsForm.apply(chosen, indices, left, right, rows.values, rows.pattern, symmetric)  # type: ignore[no-untyped-call, no-any-return]


class _FewLatentsForm(torch.autograd.Function):
    """Reconstructions are kept for the backward pass where they are small, and computed again there otherwise: those of
    2,048 tokens take 8 GiB at d = 1,024. With D = 2g X̂ per token, the gradient of a weight z_i C_ij is l_jᵀ D r_j."""

    @staticmethod
    def forward(
        ctx: Any,
        chosen: Tensor,
        indices: Tensor,
        left: Tensor,
        right: Tensor,
        values: Tensor,
        pattern: CsrPattern,
        symmetric: bool,
    ) -> Tensor:
        width, rows = left.shape[1], SparseRows(values, pattern)
        norms = torch.empty(len(chosen), dtype=chosen.dtype, device=chosen.device)
        kept, keeps = [], len(chosen) * width**2 < MOST_KEPT
        for block in _token_blocks(indices, pattern, width):
            sums = _rebuilt(block.terms(rows, chosen[block.places]), left, right, symmetric)
            norms[block.places] = torch.linalg.vector_norm(sums.flatten(1), dim=1)
            kept += [sums] if keeps else []
        ctx.pattern, ctx.symmetric = pattern, symmetric
        ctx.save_for_backward(chosen, indices, left, right, values, *kept)
        return norms.square_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chosen, indices, left, right, values, *kept = ctx.saved_tensors
        rows = SparseRows(values, ctx.pattern)
        grad_chosen, grad_left, grad_right, grad_values = map(torch.zeros_like, (chosen, left, right, values))
        for block in _token_blocks(indices, ctx.pattern, left.shape[1]):
            latents = chosen[block.places]
            terms = block.terms(rows, latents)
            sums = kept.pop(0) if kept else _rebuilt(terms, left, right, ctx.symmetric)
            share = sums * (2 * grad[block.places, None, None])
            grad_weights = terms.add_gradients(share, left, right, grad_left, grad_right) * block.exists
            for_latents = torch.zeros_like(latents).scatter_add_(1, block.slots, grad_weights * values[block.entries])
            grad_chosen[block.places] = for_latents
            grad_weights.mul_(latents.gather(1, block.slots))
            grad_values.index_add_(0, block.entries.flatten(), grad_weights.flatten())
        return grad_chosen, None, grad_left, grad_right, grad_values, None, None


def _rebuilt(terms: _Terms, left: Tensor, right: Tensor, symmetric: bool) -> Float[Tensor, "b w w"]:
    """X̂ of some tokens."""
    sums = terms.sums(left, right)
    return (sums + sums.mT).mul_(0.5) if symmetric else sums


def packed(forms: Float[Tensor, "b w w"], symmetric: bool = True) -> Float[Tensor, "b p"]:
    """½(F + Fᵀ) as vectors with the same inner products; F itself, row after row, if not symmetric."""
    flat = forms.flatten(1)
    if not symmetric:
        return flat
    upper, lower, scale = _triangle(forms)
    return flat[:, upper].add_(flat[:, lower]).mul_(scale)


def unpacked(vectors: Float[Tensor, "b p"], width: int, symmetric: bool = True) -> Float[Tensor, "b w w"]:
    """The matrices that were packed; also the gradient of `packed`."""
    if not symmetric:
        return vectors.view(-1, width, width)
    full = vectors.new_zeros(len(vectors), width, width)
    upper, lower, scale = _triangle(full)
    scaled = vectors * scale
    # Entries on the diagonal, which are upper and lower ones, get both halves.
    return full.flatten(1).index_add(1, upper, scaled).index_add_(1, lower, scaled).view(-1, width, width)


def _triangle(forms: Float[Tensor, "b w w"]) -> tuple[Tensor, Tensor, Tensor]:
    """Positions on and above the diagonal, their mirror images, and half of √2, or of 1 on the diagonal."""
    width = forms.shape[-1]
    rows, columns = torch.triu_indices(width, width, device=forms.device)
    scale = forms.new_full((len(rows),), sqrt(0.5)).masked_fill_(rows == columns, 0.5)
    return rows * width + columns, columns * width + rows, scale


def lifted_reconstruction(
    latents: Float[Tensor, "n k"],
    left: Float[Tensor, "u w"],
    right: Float[Tensor, "u w"],
    rows: SparseRows,
    symmetric: bool = True,
) -> Float[Tensor, "n p"]:
    """X̂ = Σ_i z_i W_i per token, packed; its squared norm is zᵀKz.

    Args:
        latents: z of all latents.
        left: L.
        right: R.
        rows: C.
        symmetric: False for printed atoms l rᵀ.
    """
    return _LiftedReconstruction.apply(latents, left, right, rows.values, rows.pattern, symmetric)  # type: ignore[no-untyped-call, no-any-return]


class _LiftedReconstruction(torch.autograd.Function):
    """For the gradient D of X̂: ∂/∂z_i = ⟨W_i, D⟩ and ∂/∂W_i = Σ_tokens z_i D."""

    @staticmethod
    def forward(
        ctx: Any, latents: Tensor, left: Tensor, right: Tensor, values: Tensor, pattern: CsrPattern, symmetric: bool
    ) -> Tensor:
        rows, by_latent = SparseRows(values, pattern), latents.mT
        total = latents.new_zeros(len(latents), product_width(left.shape[1], symmetric))
        for block in _form_blocks(pattern, left.shape[1]):
            forms = packed(block.terms(rows).sums(left, right), symmetric)
            torch.addmm(total, by_latent[block.places].mT, forms, out=total)
        ctx.pattern, ctx.symmetric = pattern, symmetric
        ctx.save_for_backward(latents, left, right, values)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        latents, left, right, values = ctx.saved_tensors
        rows, by_latent, width = SparseRows(values, ctx.pattern), latents.mT, left.shape[1]
        grad_latents = torch.zeros_like(by_latent, memory_format=torch.contiguous_format)
        grad_left, grad_right, grad_values = map(torch.zeros_like, (left, right, values))
        for block in _form_blocks(ctx.pattern, width):
            terms = block.terms(rows)
            grad_latents[block.places] = packed(terms.sums(left, right), ctx.symmetric) @ grad.mT
            grad_forms = unpacked(by_latent[block.places] @ grad, width, ctx.symmetric)
            found = terms.add_gradients(grad_forms, left, right, grad_left, grad_right) * block.exists
            grad_values.index_add_(0, block.entries.flatten(), found.flatten())
        return grad_latents.mT, grad_left, grad_right, grad_values, None, None
