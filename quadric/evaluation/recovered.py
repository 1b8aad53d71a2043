"""How well a language model predicts when its activations are replaced by reconstructions.

    recovered = (ablated − spliced) / (ablated − original)

for cross-entropy and for the divergence KL(original ‖ spliced), with two ablations: the replaced vectors set to zero,
or to the mean vector. 1 means that nothing is lost; 0 is as bad as the ablation. Only tokens that the token rules keep
are replaced; BOS, special tokens and attention sinks are unchanged.

With the paper's lens a bilinear autoencoder reconstructs xxᵀ, which does not contain the sign of x. Its x̂ = √λ₁v₁ takes
the sign for which x̂·x ≥ 0 and the norm of x. Linear dictionaries and those with an affine lens are given the norm as
well, but find the sign themselves; for the latter, √λ₁v₁ with the token's sign is measured beside it. A linear
dictionary that was trained elsewhere on tokens at their own length finds the norm as well.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Predictions(NamedTuple):
    """Mean cross-entropy and divergence per token for one way of replacing vectors."""

    cross_entropy: float
    divergence: float
    """KL(original ‖ spliced), in nats."""


class Recovered(NamedTuple):
    """Predictions with reconstructed vectors, and with both ablations."""

    n_tokens: int
    original: float
    """Cross-entropy of the unmodified model."""
    spliced: Predictions
    """With vectors as the dictionary itself decodes them."""
    zero: Predictions
    mean: Predictions
    borrowed: Predictions | None = None
    """With √λ₁v₁, whose sign is taken from the token; None for linear dictionaries. The paper's lens has no other
    decoding, so there it equals `spliced`."""

    def cross_entropy(self, ablation: Predictions, spliced: Predictions | None = None) -> float:
        """(ablated − spliced) / (ablated − original) for the cross-entropy; of `spliced` if no other is given."""
        found = spliced or self.spliced
        return (ablation.cross_entropy - found.cross_entropy) / (ablation.cross_entropy - self.original)

    def divergence(self, ablation: Predictions, spliced: Predictions | None = None) -> float:
        """The same for the divergence, which is zero for the unmodified model."""
        return 1 - (spliced or self.spliced).divergence / ablation.divergence


class PredictionSums:
    """Accumulates cross-entropy and divergence over batches of sequences."""

    def __init__(self) -> None:
        self.n_tokens = 0
        self.cross_entropy = self.divergence = 0.0

    def add(
        self,
        logits: Float[Tensor, "s l v"],
        original: Float[Tensor, "s l v"],
        tokens: Int[Tensor, "s l"],
        mask: Bool[Tensor, "s l"],
    ) -> None:
        """Add the predictions for every token that follows another."""
        for each in zip(logits, original, tokens, mask, strict=True):  # one sequence at a time: logits are large
            self._add_sequence(*each)

    def _add_sequence(self, logits: Tensor, original: Tensor, tokens: Tensor, mask: Tensor) -> None:
        counts = mask[1:] & mask[:-1]
        log_q = torch.log_softmax(logits[:-1][counts], dim=-1)
        log_p = torch.log_softmax(original[:-1][counts], dim=-1)
        self.cross_entropy -= log_q.gather(-1, tokens[1:][counts].unsqueeze(-1)).double().sum().item()
        self.divergence += (log_p.exp() * (log_p - log_q)).double().sum().item()
        self.n_tokens += int(counts.sum())

    def mean(self) -> Predictions:
        """Means per token."""
        return Predictions(self.cross_entropy / self.n_tokens, self.divergence / self.n_tokens)
