"""What steering is measured by: distances of predictions and of activations, and the tokens of a latent.

Predictions are compared by their log-probabilities over the vocabulary.

Activations are compared with those of a corpus in whitened space: unit tokens u are whitened by the corpus,
y = Σ^(−½)(u − μ). The Mahalanobis distance and that of the nearest neighbour are divided by √d, so that corpus tokens
have a root mean square Mahalanobis distance of 1.

A latent in the middle of a model that fires on a token need not make the model predict that token: it may as well help
to predict what comes next. So its effect is measured by two sets of tokens from its evidence, those on which it fires,
and those that follow them in the text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from quadric.data.tokenizer import Tokenizer
from quadric.evidence import Evidence
from quadric.evidence.record import NEGATIVE, POSITIVE
from quadric.model.lens import token_moments
from quadric.model.objective import unit_tokens


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


RIDGE = 1e-3
"""Added to Σ, as a share of the mean variance of a coordinate: directions in which a sample hardly varies would else
count without bounds."""
LARGEST_SAMPLE = 4096
"""Corpus tokens among which the nearest neighbour is looked for."""


class Distances(NamedTuple):
    """Of activations from a corpus, one number per activation."""

    mahalanobis: Float[Tensor, " n"]
    nearest: Float[Tensor, " n"]


class CorpusSpace:
    """Whitened space of a corpus, with some of its tokens.

    Args:
        tokens: Activations (n, d) of the corpus, more than d.

    Example:
        >>> space = CorpusSpace(torch.randn(500, 8) + 1)
        >>> far = space.distances(torch.randn(3, 8) - 5)
        >>> bool((far.nearest > 0).all())
        True
    """

    def __init__(self, tokens: Float[Tensor, "n d"]) -> None:
        if len(tokens) <= tokens.shape[1]:
            raise ValueError(
                f"corpus has {len(tokens)} tokens of width {tokens.shape[1]}, too few for their covariance; "
                f"give at least {4 * tokens.shape[1]}"
            )
        moments = token_moments(tokens)
        self.mean = moments.mean
        variances, axes = torch.linalg.eigh(moments.covariance)
        variances = variances.clamp(min=0) + RIDGE * variances.mean()
        self.whitener = (axes / variances.sqrt()) @ axes.mT
        stride = -(-len(tokens) // LARGEST_SAMPLE)
        self.sample = self.whiten(tokens[::stride])

    def whiten(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """y of activations, divided by √d, in float64."""
        centred = unit_tokens(x).to(self.mean) - self.mean
        whitened: Tensor = centred @ self.whitener / len(self.mean) ** 0.5
        return whitened

    def distances(self, x: Float[Tensor, "n d"]) -> Distances:
        """Distances of activations from the mean of the corpus, and from the nearest of its tokens."""
        whitened = self.whiten(x)
        nearest = torch.cdist(whitened, self.sample).min(dim=1).values
        return Distances(whitened.norm(dim=1), nearest)


N_FOLLOWING = 12


class LatentTokens(NamedTuple):
    """Ids in the vocabulary of the language model."""

    own: list[int]
    """Tokens on which the latent fires: those most over-represented in its energy."""
    following: list[int]
    """Tokens whose share among the next tokens exceeds their share of the text most."""


def latent_tokens(evidence: Evidence, latent: int, tokenizer: Tokenizer, n_vocabulary: int, to: float) -> LatentTokens:
    """The tokens of one latent, of the side of its value at rest on which `to` lies.

    Args:
        evidence: Of the dictionary.
        latent: Its index.
        tokenizer: Of the language model.
        n_vocabulary: Size of its vocabulary.
        to: A value of z, with the sign of the weights.

    Returns:
        Both sets.
    """
    shown = float(evidence.calibration.signs[latent]) * to
    side = POSITIVE if shown >= float(evidence.calibration.rest[latent]) else NEGATIVE
    ids = {spelling: token for token, spelling in enumerate(tokenizer.token_bytes(list(range(n_vocabulary))))}
    fired_on = [token for token in evidence.statistics.lift_tokens[latent, side].tolist() if token >= 0]

    def in_model(tokens: list[int]) -> list[int]:
        spellings = [evidence.text.vocabulary[token] for token in tokens]
        return [ids[each] for each in spellings if each in ids]

    found = LatentTokens(in_model(fired_on), in_model(following_tokens(evidence, latent, side)))
    if not found.own or not found.following:
        raise ValueError(
            f"the evidence knows no token on which latent {latent} fires "
            f"{'above' if side == POSITIVE else 'below'} its value at rest; choose another latent or value"
        )
    return found


def following_tokens(evidence: Evidence, latent: int, side: int) -> list[int]:
    """Indices into the evidence's vocabulary, by excess of their share after the latent's points; within a sequence."""
    places, values = evidence.points.places[latent], evidence.points.values[latent]
    above = values >= evidence.calibration.rest[latent]
    chosen = places[(places >= 0) & (above if side == POSITIVE else ~above)]
    text = evidence.text.token_ids
    following = chosen[(chosen + 1 < len(text)) & ~np.isin(chosen + 1, evidence.text.sequence_starts)] + 1
    counts = Counter(text[following].tolist())
    common = np.bincount(text, minlength=len(evidence.text.vocabulary)) / len(text)
    excess = {token: count / len(following) - common[token] for token, count in counts.items()}
    ranked = sorted(excess, key=lambda token: -excess[token])
    return [token for token in ranked[:N_FOLLOWING] if excess[token] > 0]
