"""How far two predictions of a language model are apart, from log-probabilities over the vocabulary."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def hellinger(log_p: Float[Tensor, "*n v"], log_q: Float[Tensor, "*n v"]) -> Float[Tensor, "*n"]:
    """Hellinger distance, between 0 and 1: H² = ½ Σ(√p − √q)².

    Args:
        log_p: Log-probabilities.
        log_q: Others, of the same shape.

    Returns:
        One distance per distribution.

    Example:
        >>> certain, fair = torch.tensor([0.0, -torch.inf]), torch.tensor([0.5, 0.5]).log()
        >>> round(float(hellinger(certain, fair)), 3)  # √(1 − √½)
        0.541
    """
    return (((log_p / 2).exp() - (log_q / 2).exp()).square().sum(-1) / 2).sqrt()


def divergence(log_p: Float[Tensor, "*n v"], log_q: Float[Tensor, "*n v"]) -> Float[Tensor, "*n"]:
    """KL(p ‖ q) in nats; outcomes of probability 0 under p count nothing.

    Args:
        log_p: Log-probabilities of the unmodified model.
        log_q: Of the steered one.

    Returns:
        One divergence per distribution.

    Example:
        >>> certain, fair = torch.tensor([0.0, -torch.inf]), torch.tensor([0.5, 0.5]).log()
        >>> round(float(divergence(certain, fair)), 3)  # log 2
        0.693
    """
    terms = torch.where(log_p == -torch.inf, 0, log_p.exp() * (log_p - log_q))
    return terms.sum(-1)


def mass(log_p: Float[Tensor, "*n v"], tokens: Sequence[int]) -> Float[Tensor, "*n"]:
    """Total probability of some tokens.

    Args:
        log_p: Log-probabilities.
        tokens: Ids in the vocabulary, each counted once.

    Returns:
        One probability per distribution.

    Example:
        >>> round(float(mass(torch.tensor([0.1, 0.2, 0.7]).log(), [0, 2, 2])), 3)
        0.8
    """
    return log_p[..., sorted(set(tokens))].exp().sum(-1)


def pairwise_hellinger(log_p: Float[Tensor, "n v"]) -> Float[Tensor, "n n"]:
    """Hellinger distances between all pairs of distributions, (n, n)."""
    return torch.stack([hellinger(each.expand_as(log_p), log_p) for each in log_p])
