"""Our Muon against torch's, and its small-side iteration against the one on the whole matrix."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model.fast.newton_schulz import orthogonalized
from quadric.train import optimizers
from quadric.train.optimizers import Muon


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ill_conditioned(rows: int, columns: int) -> torch.Tensor:
    rank = min(rows, columns)
    u, v = (torch.linalg.qr(random(size, rank, seed=size)).Q for size in (rows, columns))
    return u * torch.logspace(0, -6, rank, dtype=torch.float64) @ v.mT


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (40, 12), (12, 40), (20, 20)])
@pytest.mark.parametrize("make", [random, ill_conditioned])
def test_the_small_side_gives_what_the_whole_gives(shape, make):
    matrix = make(*shape)
    expected = optimizers.orthogonalized(matrix)
    assert_close(orthogonalized(matrix), expected, rtol=1e-9, atol=1e-9)
    single = orthogonalized(matrix.float()).double()
    assert (single - expected).norm() < 1e-3 * expected.norm(), "bfloat16 would be off by 1e-2"


@pytest.mark.parametrize("rounds", [orthogonalized, optimizers.orthogonalized])
def test_singular_values_come_near_one(rounds):
    values = torch.linalg.svdvals(rounds(random(60, 20)))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_a_zero_gradient_moves_nothing():
    assert_close(orthogonalized(torch.zeros(5, 3)), torch.zeros(5, 3))


@pytest.mark.parametrize(("is_rounded", "has_fast"), [(False, True), (False, False), (True, True)])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (530, 600)])
def test_it_agrees_with_torch_up_to_bfloat16(shape, is_rounded, has_fast, monkeypatch):
    if not has_fast:
        monkeypatch.setattr(optimizers, "fast_rounds", lambda: None)
    ours, theirs = (torch.nn.Parameter(random(*shape).float()) for _ in range(2))
    start = ours.detach().clone()
    both = (
        (ours, Muon([ours], lr=0.03, momentum=0.95, is_rounded=is_rounded)),
        (theirs, torch.optim.Muon([theirs], lr=0.03, momentum=0.95, weight_decay=0.0, adjust_lr_fn="original")),
    )
    for step in range(5):
        for parameter, optimizer in both:
            parameter.grad = random(*shape, seed=step + 1).float()
            optimizer.step()
    moved = (theirs - start).norm()
    assert (ours - theirs).norm() < (0.04 if is_rounded else 0.02) * moved  # both rounded, each its own way
    momenta = [optimizer.state[parameter]["momentum_buffer"] for parameter, optimizer in both]
    assert_close(momenta[0], momenta[1])
