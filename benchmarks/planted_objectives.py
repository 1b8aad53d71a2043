"""Two other objectives for quadratic latents, tried on planted manifolds: both keep a few latents per token.

The paper's encoder is linear in xxᵀ: every latent answers to every token, and a penalty on density is all that asks for
sparse latents. Here a token is reconstructed from its few strongest latents instead, as in a TopK autoencoder:

    sparse forms   X̂ = Σ_{i ∈ top m} z_i W_i, the paper's forms and error, without the density penalty
    subspaces      v̂ = Σ_{i ∈ top m} W_i v  with  W_i = A_iᵀA_i  of fixed rank r  and  z_i = vᵀW_i v = ‖A_i v‖²

`benchmarks/results/planted_tried.md` compares them with what else was tried.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.autoencoders.kernels.kernel import atom_gram
from quadric.autoencoders.objective import quadratic_form, unit_tokens
from quadric.training import AutoencoderConfig
from quadric.training.learner import is_mask_frozen, mixing_density_at
from quadric.training.optimizers import Muon, Optimizers

LEARNING_RATE, MOMENTUM = 0.03, 0.95
Batches = Callable[[int], Tensor]
"""The tokens of a training step."""


def train_sparse_forms(config: AutoencoderConfig, batches: Batches, steps: int, n_kept: int) -> BilinearAutoencoder:
    """A composite autoencoder whose error is that of its strongest latents, by |z_i|·‖W_i‖."""
    autoencoder = config.build(batches(0).shape[1])
    assert isinstance(autoencoder, BilinearAutoencoder)
    optimizers = Optimizers(autoencoder, LEARNING_RATE, MOMENTUM)
    for step in range(steps):
        if not is_mask_frozen(step, steps):
            density = min(mixing_density_at(step, steps, config.mixing_density), autoencoder.mixing_density)
            optimizers.follow_mixing(autoencoder.set_mixing_density(density))
        error = sparse_error(autoencoder, unit_tokens(batches(step)), n_kept)
        error.mean().backward()
        optimizers.step()
    return autoencoder


def sparse_error(autoencoder: BilinearAutoencoder, tokens: Float[Tensor, "n w"], n_kept: int) -> Float[Tensor, " n"]:
    """‖Σ_{i ∈ top} z_i W_i − xxᵀ‖² = zᵀKz − 2‖z‖² + 1, with all but the strongest z set to zero."""
    mixing = autoencoder.mixing
    used = slice(None) if mixing.used_atoms is None else mixing.used_atoms
    left, right = autoencoder.left[used], autoencoder.right[used]
    kernel = mixing.kernel(atom_gram(left, right, True))
    latents = mixing.latents(tokens, left, right)
    latents = latents * strongest((latents * kernel.diagonal().clamp(min=0).sqrt()).abs(), n_kept)
    return quadratic_form(latents, kernel) - 2 * latents.square().sum(-1) + 1


def train_subspaces(
    batches: Batches, n_subspaces: int, rank: int, n_kept: int, steps: int, seed: int
) -> Float[Tensor, "g r d"]:
    """Subspaces A_i that reconstruct each token from the few that hold most of its energy."""
    shape = (n_subspaces * rank, batches(0).shape[1])
    initial = torch.nn.init.orthogonal_(torch.empty(shape), generator=torch.Generator().manual_seed(seed))
    rows = torch.nn.Parameter(initial)
    optimizer = Muon([rows], LEARNING_RATE, MOMENTUM)
    for step in range(steps):
        tokens = batches(step)
        inside = (tokens @ rows.mT).unflatten(1, (n_subspaces, rank))
        kept = inside * strongest(inside.square().sum(-1), n_kept)[..., None]
        error = (kept.flatten(1) @ rows - tokens).square().sum(-1) / tokens.square().sum(-1).mean()
        error.mean().backward()
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, 2 * (1 - step / steps))
        optimizer.step()
        optimizer.zero_grad()
    return rows.detach().unflatten(0, (n_subspaces, rank))


def strongest(scores: Float[Tensor, "n k"], count: int) -> Float[Tensor, "n k"]:
    """1 for the largest scores of each token, 0 for the others."""
    scores = scores.detach()
    return (scores >= scores.topk(count, dim=1).values[:, -1:]).to(scores)
