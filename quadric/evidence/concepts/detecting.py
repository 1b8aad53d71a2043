"""How well one latent tells a concept's tokens from the tokens of a corpus: average precision.

Tokens are ranked by a latent's activation, or by its negative, since z and −z are the same latent. Average precision is
the mean, over the concept's tokens, of the precision at their rank:

    AP = mean over positives i of  #{positives j : z_j ≥ z_i} / #{all tokens j : z_j ≥ z_i}.

Tokens with equal activation count together, so that a latent that is zero nearly everywhere gains nothing from their
order. A latent that is unrelated to the concept has the share of positives among all tokens, the chance level.

The best of many latents looks good by chance alone. So latent and sign are chosen on one half of the tokens, and the
average precision is that on the other half.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model import Dictionary


class Detection(NamedTuple):
    """The single latent that detects a concept best, chosen on half of the tokens and measured on the other half."""

    latent: int
    sign: int
    """1 or −1: which side of the latent the concept is on."""
    precision: float
    """Average precision on the other half."""
    chance: float
    """Share of the concept's tokens in the other half."""


@torch.no_grad()
def detect(autoencoder: Dictionary, concept: Float[Tensor, "b w d"], corpus: Float[Tensor, "n d"]) -> Detection | None:
    """The latent that detects a concept best.

    Args:
        autoencoder: Any dictionary, bilinear or linear.
        concept: Activations of every word after every prompt, at their own length.
        corpus: Activations of corpus tokens that are not words of the concept.

    Returns:
        The detection; None if there are too few tokens to split in two.

    Example:
        >>> from quadric.evidence.concepts.detecting import detect
        >>> found = detect(ae, concept=x[:24].view(4, 6, 32), corpus=x[24:])
        >>> found.sign in (1, -1), found.chance < found.precision <= 1
        (True, True)
    """
    positives = [_encoded(autoencoder, part) for part in _checkerboard(concept)]
    negatives = [_encoded(autoencoder, part) for part in corpus.tensor_split(2)]
    if min(map(len, positives + negatives)) == 0:
        return None
    latent, sign = _best(positives[0], negatives[0])
    scores = [sign * each[:, latent : latent + 1] for each in (positives[1], negatives[1])]
    chance = len(scores[0]) / (len(scores[0]) + len(scores[1]))
    return Detection(latent, sign, average_precision(*scores).item(), chance)


def average_precision(positives: Float[Tensor, "p k"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """Average precision of each latent at ranking the positives above the negatives.

    Args:
        positives: Values of each latent on tokens of the concept.
        negatives: Values on other tokens.

    Returns:
        One number per latent, 1 at best.

    Example:
        >>> from quadric.evidence.concepts.detecting import average_precision
        >>> average_precision(torch.tensor([[3.0], [1.0]]), torch.tensor([[2.0], [0.0]]))
        tensor([0.8333], dtype=torch.float64)
    """
    found = _at_least(positives, positives)
    mistaken = _at_least(negatives, positives)
    return (found / (found + mistaken)).mean(0)


def _at_least(scores: Float[Tensor, "n k"], thresholds: Float[Tensor, "p k"]) -> Float[Tensor, "p k"]:
    """How many scores of the same column reach each threshold."""
    ascending = scores.mT.contiguous().sort(dim=-1).values
    below = torch.searchsorted(ascending, thresholds.mT.contiguous(), side="left")
    return (len(scores) - below).mT.double()


def _best(positives: Float[Tensor, "p k"], negatives: Float[Tensor, "n k"]) -> tuple[int, int]:
    signs = (1, -1)
    precisions = torch.stack([average_precision(sign * positives, sign * negatives) for sign in signs])
    row, latent = divmod(int(precisions.argmax()), precisions.shape[1])
    return latent, signs[row]


def _checkerboard(concept: Float[Tensor, "b w d"]) -> tuple[Tensor, Tensor]:
    """Two halves of the tokens; both have every prompt and every word, but never the same pair."""
    prompts, words = (torch.arange(size) for size in concept.shape[:2])
    even = (prompts[:, None] + words) % 2 == 0
    return concept[even], concept[~even]


def _encoded(autoencoder: Dictionary, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    if not len(tokens):
        return torch.zeros(0, autoencoder.n_latents)
    device = next(autoencoder.parameters()).device
    return autoencoder.encode(autoencoder.prepare(tokens.float().to(device))).float().cpu()
