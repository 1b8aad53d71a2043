"""What a term of the loss can ask for about one batch; each quantity is computed once, when it is first asked for.

    Step          any dictionary, by its `encode` and `rebuild`
    PlainStep     the paper's formulas for quadratic forms, line by line: the specification
    fast.step     the same quantities for quadratic forms, as fast as the machine allows

Tests compare the values and gradients of `PlainStep` with those of the fast step for every prior and size.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.objective import density_from_norms, density_norms, kernel_error, product_space_error, quadratic_form
from quadric.model.processes import ALONE, Processes
from quadric.model.terms import Term

if TYPE_CHECKING:
    from quadric.model.bilinear import BilinearAutoencoder
    from quadric.model.dictionary import Dictionary, TokenErrors


class LatentNorms(NamedTuple):
    """Norms per latent over the tokens of a batch."""

    l1: Float[Tensor, " k"]
    l2_squared: Float[Tensor, " k"]

    def density(self, n_tokens: int) -> Float[Tensor, " k"]:
        """Hoyer density of every latent, safe for silent ones."""
        return density_from_norms(self.l1, self.l2_squared, n_tokens)


class MeanForm(NamedTuple):
    """Means over the batch of what is reconstructed from all latents, and of what is to be reconstructed."""

    rebuilt: Float[Tensor, "w w"]
    actual: Float[Tensor, "w w"]


class LossTerms(NamedTuple):
    """The loss of one batch: total = error + α · density. `total` is minimized.

    Example:
        >>> autoencoder = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> terms = autoencoder.loss(torch.randn(100, 8), alpha=0.3)
        >>> terms.total.backward()
    """

    total: Float[Tensor, ""]
    error: Float[Tensor, ""]
    """Normalized squared error in the product space, averaged over tokens."""
    density: Float[Tensor, ""]
    """Hoyer density over the batch, averaged over latents."""


class Step:
    """One batch of one dictionary, seen by the terms of a loss.

    Args:
        dictionary: any.
        batch: activations (n, d) of this process.
        loss: the terms that will ask.
        index: of the training step, counted from 0.
        steps: of the training.
        processes: that share the batch.

    Example:
        >>> step = ae.step(x)
        >>> step.z.shape, step.n_tokens
        (torch.Size([2000, 24]), 2000)
        >>> 0 < step.mean(step.errors()).item() < 2
        True
    """

    def __init__(
        self,
        dictionary: "Dictionary",
        batch: Tensor,
        *,
        loss: Iterable[Term] = (),
        index: int = 0,
        steps: int = 1,
        processes: Processes = ALONE,
    ) -> None:
        self.dictionary, self.x, self.loss = dictionary, batch, tuple(loss)
        self.index, self.steps, self.processes = index, steps, processes
        self.prepared = dictionary.prepare(batch)
        self.n_tokens = processes.total_count(len(batch), batch)
        """Tokens of all processes."""

    @cached_property
    def inputs(self) -> Float[Tensor, "n w"]:
        """What the forms read: unit tokens, in the coordinates of the lens."""
        return self.prepared

    @cached_property
    def z(self) -> Float[Tensor, "n k"]:
        """Latents of the tokens of this process."""
        return self.dictionary.encode_prepared(self.prepared)

    @cached_property
    def reconstruction(self) -> Float[Tensor, "n d"]:
        """x̂ of the unit tokens."""
        return self.dictionary.vectors_of(self.prepared, self.z)

    @property
    def residual(self) -> Float[Tensor, "n d"]:
        """x − x̂."""
        return self.prepared - self.reconstruction

    @cached_property
    def kernel(self) -> Float[Tensor, "k k"]:
        """Inner products of the latents' forms, where they are few enough."""
        raise ValueError(f"a {self.dictionary.settings.kind} has no kernel; leave out the terms that ask for it")

    def total(self, own: Tensor) -> Tensor:
        """Sum over processes, differentiable."""
        return self.processes.total(own)

    def mean(self, per_token: Float[Tensor, " n"]) -> Float[Tensor, ""]:
        """Mean over the tokens of all processes."""
        return self.total(per_token.sum()) / self.n_tokens

    def errors(self, top: int | None = None) -> Float[Tensor, " n"]:
        """‖X̂ − X‖²/‖X‖² of every token, from all latents or from the `top` strongest of the token."""
        if top is not None:
            raise ValueError(f"error.top={top} needs quadratic forms; a {self.dictionary.settings.kind} has none")
        return product_space_error(self.prepared, self.reconstruction)

    def norms(self, offset: Float[Tensor, " k"] | None) -> LatentNorms:
        """‖z − b‖₁ and ‖z − b‖₂² of every latent over the tokens of all processes."""
        l1, l2_squared = density_norms(self.z, offset)
        return LatentNorms(self.total(l1), self.total(l2_squared))

    def backward(self, loss: Float[Tensor, ""], gradient_dtype: str = "auto") -> None:
        """Gradients of a loss; from rounded factors of this type, where that is known to be faster."""
        loss.backward()  # type: ignore[no-untyped-call]

    def overlap(self) -> Float[Tensor, ""]:
        """Σ_{i≠j} cos²(W_i, W_j) / k, or an estimate from a sample of the latents where K is too large."""
        raise ValueError(f"overlap needs quadratic forms; a {self.dictionary.settings.kind} has none; leave it out")

    def mean_form(self) -> MeanForm:
        """Means over the batch of X̂ and X."""
        raise ValueError(f"mean needs quadratic forms; a {self.dictionary.settings.kind} has none; leave it out")


class PlainStep(Step):
    """The paper's formulas in plain autograd. The terms of `paper_loss()` on it are the printed pseudocode.

    Example:
        >>> from quadric.model import PlainStep
        >>> plain, fast = PlainStep(ae, x).errors(), ae.step(x).errors()
        >>> torch.allclose(plain, fast, atol=1e-4)
        True
    """

    dictionary: "BilinearAutoencoder"

    @cached_property
    def inputs(self) -> Float[Tensor, "n w"]:
        return self.dictionary.seen(self.prepared)

    @cached_property
    def kernel(self) -> Float[Tensor, "k k"]:
        return self.kernel_of(self.dictionary, self.inputs.dtype)

    @cached_property
    def z(self) -> Float[Tensor, "n k"]:
        return self.latents_of(self.dictionary, self.inputs)

    @staticmethod
    def latents_of(dictionary: "BilinearAutoencoder", inputs: Float[Tensor, "n w"]) -> Float[Tensor, "n k"]:
        """z of x̃."""
        left, right = dictionary.factors(inputs.dtype)
        return ((inputs @ left.mT) * (inputs @ right.mT)) @ dictionary.mixing.matrix().to(inputs).mT

    @staticmethod
    def kernel_of(dictionary: "BilinearAutoencoder", dtype: torch.dtype, *, raw: bool = False) -> Float[Tensor, "k k"]:
        """K, of the forms on x̃ or on the raw unit token."""
        mixing = dictionary.mixing.matrix().to(dictionary.left.device, dtype)
        return mixing @ plain_gram(*dictionary.factors(dtype, raw=raw), dictionary.symmetric) @ mixing.mT

    @staticmethod
    def errors_of(
        dictionary: "BilinearAutoencoder", tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
    ) -> "TokenErrors":
        """Errors of x̃x̃ᵀ and of uuᵀ, for unit tokens u: zᵀKz − 2z·y + 1 with y_i = ⟨W_i, X⟩."""
        from quadric.model.dictionary import TokenErrors

        own = kernel_error(quadratic_form(latents, PlainStep.kernel_of(dictionary, latents.dtype)), latents)
        if dictionary.lens.kind == "paper":
            return TokenErrors(product_space=own, objective=own)
        left, right = dictionary.factors(tokens.dtype, raw=True)
        scaled = dictionary.at_own_scale(tokens, latents)
        cross = ((tokens @ left.mT) * (tokens @ right.mT)) @ dictionary.mixing.matrix().to(tokens).mT
        raw = quadratic_form(scaled, PlainStep.kernel_of(dictionary, latents.dtype, raw=True))
        return TokenErrors(product_space=raw - 2 * (scaled * cross).sum(-1) + 1, objective=own)

    @staticmethod
    def factors_of(dictionary: "BilinearAutoencoder", dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """L and R of the atoms that some latent uses."""
        return dictionary.factors(dtype)

    @staticmethod
    def used_weights(dictionary: "BilinearAutoencoder", latents: Float[Tensor, "n k"]) -> Float[Tensor, "n u"]:
        """Cᵀz, for the atoms that some latent uses."""
        return dictionary.mixing.unmix(latents)

    def errors(self, top: int | None = None) -> Float[Tensor, " n"]:
        kept = self.z
        if top is not None and top < kept.shape[1]:
            share = kept.abs() * self.kernel.diagonal().clamp(min=0).sqrt()
            kept = kept * (share >= share.topk(top).values[:, -1:])
        return kernel_error(((kept @ self.kernel) * kept).sum(-1), kept)

    def overlap(self) -> Float[Tensor, ""]:
        norms = self.kernel.diagonal()
        alive = norms > torch.finfo(norms.dtype).tiny  # an empty form has no direction
        cosines = torch.where(alive, self.kernel / torch.where(alive, norms, 1).sqrt(), 0)
        cosines = torch.where(alive[:, None], cosines / torch.where(alive, norms, 1).sqrt()[:, None], 0)
        return (cosines.square().sum() - cosines.diagonal().square().sum()) / len(norms)

    def mean_form(self) -> MeanForm:
        width, k = self.inputs.shape[1], self.z.shape[1]
        sums = torch.cat([self.z.sum(0), (self.inputs.mT @ self.inputs).flatten()])
        means = self.total(sums) / self.n_tokens
        # X̂ is linear in z, so its mean is that of the mean latents.
        left, right = self.factors_of(self.dictionary, means.dtype)
        weights = self.used_weights(self.dictionary, means[None, :k])[0]
        rebuilt = (left * weights[:, None]).mT @ right
        rebuilt = (rebuilt + rebuilt.mT) / 2 if self.dictionary.symmetric else rebuilt
        return MeanForm(rebuilt, means[k:].view(width, width))


def plain_gram(left: Float[Tensor, "h w"], right: Float[Tensor, "h w"], symmetric: bool) -> Float[Tensor, "h h"]:
    """G, the inner products of the atoms ½(l rᵀ + r lᵀ), or of the printed l rᵀ."""
    straight = (left @ left.mT) * (right @ right.mT)
    return (straight + (left @ right.mT) * (right @ left.mT)) / 2 if symmetric else straight


def step_class() -> type[PlainStep]:
    """The fast step; the plain one where the package was installed without `model/fast`, which nothing else needs."""
    try:
        from quadric.model.fast.step import FastStep
    except ModuleNotFoundError:
        return PlainStep
    return FastStep


def values_of(loss: Iterable[Term], step: Step) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
    """The loss of a batch, and the value of each of its terms by name.

    Terms without weight are computed last and without gradient: what they ask for would otherwise be computed without
    one for the others too.

    Args:
        loss: the terms.
        step: of one batch.

    Returns:
        Σ weight · value, with the weights of this step, and the values.

    Example:
        >>> from quadric.model import values_of
        >>> loss = quadric.paper_loss()
        >>> total, values = values_of(loss, ae.step(x, loss))
        >>> list(values)
        ['error', 'density']
    """
    loss = tuple(loss)
    values = {term.name: _scalar(term, step) for term in loss if term.weight}
    with torch.no_grad():
        values |= {term.name: _scalar(term, step) for term in loss if not term.weight}
    weighted = [term.weight_at(step.index, step.steps) * values[term.name] for term in loss if term.weight]
    if not weighted:
        return step.prepared.new_zeros(()), values
    return torch.stack(weighted).sum() if len(weighted) > 1 else weighted[0], values


def _scalar(term: Term, step: Step) -> Float[Tensor, ""]:
    value = term(step)
    if not isinstance(value, Tensor) or value.shape != ():
        what = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"the term {term.name!r} returned {what}, not a scalar tensor; return e.g. step.mean(values)")
    return value
