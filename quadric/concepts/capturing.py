"""How much of what tells a concept's words apart lies inside one latent's eigenspace.

With x_bw the unit vector of word w after beginning b and x̄_b the mean over words, the concept's variance is
S = Σ (x_bw − x̄_b)(x_bw − x̄_b)ᵀ, scaled to trace 1: what differs between words, not between sentences. The eigenspace
of a latent has its effective rank, rounded, and at most 8 dimensions; with U its orthonormal basis, the share is

    captured = tr UᵀSU.

The best of many latents looks good by chance alone, so it is shown beside the best of equally many random subspaces of
its rank, the best latent of an untrained autoencoder, the median latent, and the most that any subspace of that rank
can hold.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.geometry import spectra
from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.similarity import randomly_initialized
from quadric.geometry.statistics import effective_rank

LARGEST_RANK = 8
BLOCK = 256


class Capture(NamedTuple):
    """The latent that holds most of a concept, and what chance would hold."""

    latent: int
    rank: int
    """Dimensions of its eigenspace."""
    captured: float
    most: float
    """What the best subspace of that rank holds: the leading principal components of the concept itself."""
    random_subspace: float
    """The best of as many random subspaces of that rank as there are latents."""
    untrained: float
    """The best latent of a random initialization, whatever its rank."""
    median: float
    """The median latent of the same autoencoder."""


class Directions(NamedTuple):
    """The single direction of a linear dictionary that holds most of a concept."""

    latent: int
    captured: float
    most: float
    """What the best single direction holds."""
    random_subspace: float
    median: float


def concept_variance(vectors: Float[Tensor, "b w d"]) -> Float[Tensor, "d d"]:
    """S: the variance between words after the same beginning, of trace 1."""
    centred = (vectors - vectors.mean(1, keepdim=True)).flatten(0, 1)
    total = centred.square().sum()
    if not total > 0:
        raise ValueError("all words of the concept have the same vector; is the hook point before any layer?")
    return centred.mT @ centred / total


@torch.no_grad()
def captured_shares(
    autoencoder: BilinearAutoencoder, variances: list[Float[Tensor, "d d"]]
) -> tuple[Float[Tensor, "c k"], Tensor]:
    """tr U_iᵀSU_i of every latent for each concept, and the latents' ranks."""
    shares = torch.zeros(len(variances), autoencoder.n_latents, dtype=torch.float64)
    ranks = torch.zeros(autoencoder.n_latents, dtype=torch.int64)
    for latents, eigenvalues, eigenvectors in spectra(autoencoder):
        kept = eigenvectors[..., :LARGEST_RANK].double().cpu()
        rank = effective_rank(eigenvalues.double().cpu()).round().long().clamp(0, LARGEST_RANK)
        used = torch.arange(kept.shape[-1]) < rank[:, None]
        for row, variance in enumerate(variances):
            energies = ((variance @ kept) * kept).sum(1)
            shares[row, latents.cpu()] = (energies * used).sum(-1)
        ranks[latents.cpu()] = rank
    return shares, ranks


def capture_by_forms(
    autoencoder: BilinearAutoencoder, variances: list[Float[Tensor, "d d"]], seed: int = NULL_SEED
) -> list[Capture]:
    """The best latent for each concept, beside chance."""
    shares, ranks = captured_shares(autoencoder, variances)
    untrained, _ = captured_shares(randomly_initialized(autoencoder, seed), variances)
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
    """The best single direction for each concept: what a linear dictionary can hold in one latent."""
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
    """The sum of the leading eigenvalues of S."""
    leading: Tensor = torch.linalg.eigvalsh(variance).flip(0)[:rank]
    return leading.sum().item()


def best_random_subspace(variance: Float[Tensor, "d d"], rank: int, count: int, seed: int) -> float:
    """The most that any of so many random subspaces captures."""
    generator = torch.Generator().manual_seed(seed)
    best = 0.0
    for start in range(0, count, BLOCK):
        shape = (min(BLOCK, count - start), len(variance), rank)
        frames = torch.linalg.qr(torch.randn(shape, dtype=torch.float64, generator=generator)).Q
        best = max(best, ((variance @ frames) * frames).sum((1, 2)).max().item())
    return best
