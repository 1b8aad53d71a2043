"""Another objective for quadratic latents, tried on planted manifolds: subspaces, of which each token keeps a few.

    v̂ = Σ_{i ∈ top m} W_i v  with  W_i = A_iᵀA_i  of fixed rank r  and  z_i = vᵀW_i v = ‖A_i v‖²

`benchmarks/results/planted_tried.md` compares it with what else was tried.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.train.optimizers import Muon

LEARNING_RATE, MOMENTUM = 0.03, 0.95
Batches = Callable[[int], Tensor]
"""The tokens of a training step."""


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
