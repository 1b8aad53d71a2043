"""Share of a concept's variance between words that lies inside one latent's eigenspace.

Let x_bw be the unit activation of word w after prompt b, and x̄_b the mean over words. The concept's variance is
S = Σ (x_bw − x̄_b)(x_bw − x̄_b)ᵀ, scaled to trace 1. It measures differences between words, not between prompts. A
latent's eigenspace is spanned by the leading eigenvectors of its quadratic part: as many as its effective rank,
rounded, but at most 8. With its orthonormal basis U, the share is

    captured = tr UᵀSU.

The best of many latents looks good by chance alone. So it is compared with the best of equally many random subspaces of
the same rank, the best latent of an untrained autoencoder, the median latent, and the maximum over all subspaces of
that rank.
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
from quadric.model.forms import Forms

LARGEST_RANK = 8
BLOCK = 256


class Capture(NamedTuple):
    """The latent that captures most of a concept, and the chance levels."""

    latent: int
    rank: int
    """Dimension of its eigenspace."""
    captured: float
    most: float
    """Maximum over all subspaces of that rank, reached by the concept's leading principal components."""
    random_subspace: float
    """Best of as many random subspaces of that rank as there are latents."""
    untrained: float
    """Best latent of a random initialization, of any rank."""
    median: float
    """Median over latents of the same autoencoder."""


class Directions(NamedTuple):
    """The single direction of a linear dictionary that captures most of a concept."""

    latent: int
    captured: float
    most: float
    """Maximum over all single directions."""
    random_subspace: float
    median: float


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
    autoencoder: Dictionary | Forms, variances: list[Float[Tensor, "d d"]]
) -> tuple[Float[Tensor, "c k"], Tensor]:
    """tr U_iᵀSU_i of every latent for each concept, and the rank of each latent."""
    shares = torch.zeros(len(variances), autoencoder.n_latents, dtype=torch.float64)
    ranks = torch.zeros(autoencoder.n_latents, dtype=torch.int64)
    for latents, eigenvalues, eigenvectors in centred_spectra(autoencoder):
        kept = eigenvectors[..., :LARGEST_RANK].double().cpu()
        rank = effective_rank(eigenvalues.double().cpu()).round().long().clamp(0, LARGEST_RANK)
        used = torch.arange(kept.shape[-1]) < rank[:, None]
        for row, variance in enumerate(variances):
            energies = ((variance @ kept) * kept).sum(1)
            shares[row, latents.cpu()] = (energies * used).sum(-1)
        ranks[latents.cpu()] = rank
    return shares, ranks


def capture_by_forms(
    autoencoder: Dictionary | Forms, variances: list[Float[Tensor, "d d"]], seed: int = NULL_SEED
) -> list[Capture]:
    """The best latent for each concept, with the chance levels.

    Args:
        autoencoder: A bilinear autoencoder.
        variances: Of every concept, S: variance between its words, scaled to trace 1.
        seed: Of the random subspaces and of the untrained autoencoder.

    Returns:
        One result per concept.

    Example:
        >>> from quadric.evidence.concepts.capturing import capture_by_forms
        >>> words = torch.nn.functional.normalize(x[:12] - x[:12].mean(0), dim=1).double()
        >>> concept = words.mT @ words / words.square().sum()
        >>> (best,) = capture_by_forms(ae, [concept])
        >>> best.median <= best.captured <= best.most
        True
    """
    shares, ranks = captured_shares(autoencoder, variances)
    untrained, _ = captured_shares(random_forms(require_forms(autoencoder), seed), variances)
    found = []
    for row, variance in enumerate(variances):
        latent = int(shares[row].argmax())
        rank = int(ranks[latent])
        found.append(
            Capture(
                latent=latent,
                rank=rank,
                captured=shares[row, latent].item(),
                most=most_captured(variance, rank),
                random_subspace=best_random_subspace(variance, rank, autoencoder.n_latents, seed),
                untrained=untrained[row].max().item(),
                median=shares[row].median().item(),
            )
        )
    return found


def capture_by_directions(
    directions: Float[Tensor, "k d"], variances: list[Float[Tensor, "d d"]], seed: int = NULL_SEED
) -> list[Directions]:
    """The best single direction of a linear dictionary for each concept.

    Args:
        directions: One direction per latent, of any length.
        variances: Of every concept, S: variance between its words, scaled to trace 1.
        seed: Of the random directions.

    Returns:
        One result per concept.

    Example:
        >>> from quadric.evidence.concepts.capturing import capture_by_directions
        >>> concept = torch.diag(torch.tensor([0.7, 0.3, 0.0]).double())
        >>> (best,) = capture_by_directions(torch.eye(3), [concept])
        >>> best.latent, round(best.captured, 3), round(best.most, 3)
        (0, 0.7, 0.7)
    """
    unit = directions.double() / torch.linalg.vector_norm(directions.double(), dim=-1, keepdim=True).clamp(min=1e-30)
    found = []
    for variance in variances:
        shares = ((unit @ variance) * unit).sum(-1)
        latent = int(shares.argmax())
        found.append(
            Directions(
                latent=latent,
                captured=shares[latent].item(),
                most=most_captured(variance, 1),
                random_subspace=best_random_subspace(variance, 1, len(unit), seed),
                median=shares.median().item(),
            )
        )
    return found


def most_captured(variance: Float[Tensor, "d d"], rank: int) -> float:
    """Sum of the leading `rank` eigenvalues of S."""
    leading: Tensor = torch.linalg.eigvalsh(variance).flip(0)[:rank]
    return leading.sum().item()


def best_random_subspace(variance: Float[Tensor, "d d"], rank: int, count: int, seed: int) -> float:
    """Largest share captured by any of `count` random subspaces."""
    generator = torch.Generator().manual_seed(seed)
    best = 0.0
    for start in range(0, count, BLOCK):
        shape = (min(BLOCK, count - start), len(variance), rank)
        frames = torch.linalg.qr(torch.randn(shape, dtype=torch.float64, generator=generator)).Q
        best = max(best, ((variance @ frames) * frames).sum((1, 2)).max().item())
    return best
