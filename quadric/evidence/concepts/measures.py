"""How well latents hold a concept: variance between its words captured by an eigenspace, and detection of its tokens.

Let x_bw be the unit activation of word w after prompt b, and x̄_b the mean over words. The concept's variance is
S = Σ (x_bw − x̄_b)(x_bw − x̄_b)ᵀ, scaled to trace 1. It measures differences between words, not between prompts. A
latent's eigenspace is spanned by the leading eigenvectors of its quadratic part: as many as its effective rank,
rounded, but at most 8; in a linear dictionary, by its direction. With the orthonormal basis U, the share is

    captured = tr UᵀSU.

The best of many latents looks good by chance alone. So it is compared with the best of equally many random subspaces of
the same rank, the best latent of an untrained autoencoder, the median latent, and the maximum over all subspaces of
that rank.

A latent detects a concept if it tells the concept's tokens from those of a corpus. Tokens are ranked by its activation,
or by its negative, since z and −z are the same latent. Average precision is the mean, over the concept's tokens, of the
precision at their rank:

    AP = mean over positives i of  #{positives j : z_j ≥ z_i} / #{all tokens j : z_j ≥ z_i}.

Tokens with equal activation count together, so that a latent that is zero nearly everywhere gains nothing from their
order. A latent that is unrelated to the concept has the share of positives among all tokens. Latent and sign are chosen
on one half of the tokens, and the average precision is that on the other half.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.decomposition import centred_spectra
from quadric.geometry.dictionary import require_forms
from quadric.geometry.similarity import random_forms
from quadric.geometry.spectra import effective_rank
from quadric.model import Dictionary
from quadric.model.forms import Directions, Forms

LARGEST_RANK = 8
BLOCK = 256


class Capture(NamedTuple):
    """The latent that captures most of a concept, and the chance levels."""

    latent: int
    rank: int
    """Dimension of its eigenspace; 1 in a linear dictionary."""
    captured: float
    most: float
    """Maximum over all subspaces of that rank, reached by the concept's leading principal components."""
    random_subspace: float
    """Best of as many random subspaces of that rank as there are latents."""
    untrained: float | None
    """Best latent of a random initialization, of any rank; None for a linear dictionary."""
    median: float
    """Median over latents of the same dictionary."""


def concept_variance(vectors: Float[Tensor, "b w d"]) -> Float[Tensor, "d d"]:
    """S: the variance between words after the same prompt, scaled to trace 1."""
    centred = (vectors - vectors.mean(1, keepdim=True)).flatten(0, 1)
    total = centred.square().sum()
    if not total > 0:
        raise ValueError(
            "all words of the concept have the same vector; check that they end in different tokens and use a "
            "later hook point"
        )
    return centred.mT @ centred / total


@torch.no_grad()
def captured_shares(
    latents: Dictionary | Forms, variances: list[Float[Tensor, "d d"]]
) -> tuple[Float[Tensor, "c k"], Tensor]:
    """tr U_iᵀSU_i of every latent for each concept, and the rank of each latent."""
    forms = latents if isinstance(latents, Forms) else latents.forms()
    variances = [variance.cpu() for variance in variances]
    if isinstance(forms, Directions):
        directions = forms.writes.cpu().double()
        unit = directions / torch.linalg.vector_norm(directions, dim=-1, keepdim=True).clamp(min=1e-30)
        shares = torch.stack([((unit @ variance) * unit).sum(-1) for variance in variances])
        return shares, torch.ones(len(unit), dtype=torch.int64)
    shares = torch.zeros(len(variances), latents.n_latents, dtype=torch.float64)
    ranks = torch.zeros(latents.n_latents, dtype=torch.int64)
    for batch, eigenvalues, eigenvectors in centred_spectra(latents):
        kept = eigenvectors[..., :LARGEST_RANK].double().cpu()
        rank = effective_rank(eigenvalues.double().cpu()).round().long().clamp(0, LARGEST_RANK)
        used = torch.arange(kept.shape[-1]) < rank[:, None]
        for row, variance in enumerate(variances):
            energies = ((variance @ kept) * kept).sum(1)
            shares[row, batch.cpu()] = (energies * used).sum(-1)
        ranks[batch.cpu()] = rank
    return shares, ranks


def best_captures(
    autoencoder: Dictionary, variances: list[Float[Tensor, "d d"]], seed: int = NULL_SEED
) -> list[Capture]:
    """For each concept, given by its S, the latent that captures most of it; `seed` draws the chance levels."""
    shares, ranks = captured_shares(autoencoder, variances)
    untrained = None
    if not isinstance(autoencoder.forms(), Directions):
        untrained, _ = captured_shares(random_forms(require_forms(autoencoder), seed), variances)
    best = []
    for row, variance in enumerate(variances):
        latent = int(shares[row].argmax())
        rank = int(ranks[latent])
        capture = Capture(
            latent=latent,
            rank=rank,
            captured=shares[row, latent].item(),
            most=most_captured(variance, rank),
            random_subspace=best_random_subspace(variance, rank, autoencoder.n_latents, seed),
            untrained=None if untrained is None else untrained[row].max().item(),
            median=shares[row].median().item(),
        )
        best.append(capture)
    return best


def most_captured(variance: Float[Tensor, "d d"], rank: int) -> float:
    """Sum of the leading `rank` eigenvalues of S."""
    leading: Tensor = torch.linalg.eigvalsh(variance.cpu()).flip(0)[:rank]
    return leading.sum().item()


def best_random_subspace(variance: Float[Tensor, "d d"], rank: int, count: int, seed: int) -> float:
    """Largest share captured by any of `count` random subspaces."""
    generator, variance = torch.Generator().manual_seed(seed), variance.cpu()
    best = 0.0
    for start in range(0, count, BLOCK):
        shape = (min(BLOCK, count - start), len(variance), rank)
        frames = torch.linalg.qr(torch.randn(shape, dtype=torch.float64, generator=generator)).Q
        best = max(best, ((variance @ frames) * frames).sum((1, 2)).max().item())
    return best


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
    """The latent that detects a concept best; None if there are too few tokens to split in two.

    `concept` holds activations of every word after every prompt, `corpus` those of other tokens, at their own length.
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
    """Average precision of each latent at ranking the positives above the negatives."""
    right, wrong = _at_least(positives, positives), _at_least(negatives, positives)
    return (right / (right + wrong)).mean(0)


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
