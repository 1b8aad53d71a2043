"""How much of a language model's predictions survives when its vectors are replaced by rebuilt ones.

    recovered = (ablated − spliced) / (ablated − original)

for cross-entropy and for the divergence KL(original ‖ spliced), against two ablations: the replaced vectors set to
zero, and to the mean vector. 1 is nothing lost; 0 is as bad as the ablation. Only tokens that the token rules keep
are replaced; BOS, special tokens and attention sinks stay as they are.

A bilinear autoencoder rebuilds xxᵀ, which has forgotten the sign of x: its x̂ = √λ₁v₁ takes the sign for which
x̂·x ≥ 0 and the length of x. That is one bit and one number that the linear baselines have to encode themselves
(their length is given to them as well).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Predictions(NamedTuple):
    """What one way of replacing vectors does, a token on average."""

    cross_entropy: float
    divergence: float
    """KL(original ‖ spliced), in nats."""


class Recovered(NamedTuple):
    """Against both ablations."""

    n_tokens: int
    original: float
    """Cross-entropy of the untouched model."""
    spliced: Predictions
    zero: Predictions
    mean: Predictions

    def cross_entropy(self, ablation: Predictions) -> float:
        """Share of the cross-entropy that an ablation costs and the rebuilt vectors do not."""
        return (ablation.cross_entropy - self.spliced.cross_entropy) / (ablation.cross_entropy - self.original)

    def divergence(self, ablation: Predictions) -> float:
        """The same of the divergence, which is zero for the untouched model."""
        return 1 - self.spliced.divergence / ablation.divergence


class PredictionSums:
    """Adds up cross-entropy and divergence over batches of sequences."""

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
        """Take in the predictions for every token that follows another."""
        for each in zip(logits, original, tokens, mask, strict=True):  # a vocabulary is wide: one sequence at a time
            self._add_sequence(*each)

    def _add_sequence(self, logits: Tensor, original: Tensor, tokens: Tensor, mask: Tensor) -> None:
        counts = mask[1:] & mask[:-1]
        log_q = torch.log_softmax(logits[:-1][counts], dim=-1)
        log_p = torch.log_softmax(original[:-1][counts], dim=-1)
        self.cross_entropy -= log_q.gather(-1, tokens[1:][counts].unsqueeze(-1)).double().sum().item()
        self.divergence += (log_p.exp() * (log_p - log_q)).double().sum().item()
        self.n_tokens += int(counts.sum())

    def mean(self) -> Predictions:
        """A token on average."""
        return Predictions(self.cross_entropy / self.n_tokens, self.divergence / self.n_tokens)
