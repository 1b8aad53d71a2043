"""One-direction functions have no share beyond one direction; forms of several directions have."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from quadric.evidence.bending import FEWEST_TOKENS, beyond_one_direction, beyond_two_directions, rows_by_content

N, D = 8_000, 24
GAUSSIAN, CLUSTERED = "Gaussian", "heavy-tailed clusters"


def tokens_of(distribution: str) -> Tensor:
    """Tokens with unequal variances; the clustered ones are about 12 centres, with t-distributed distances."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(N, D, generator=generator)
    if distribution == CLUSTERED:
        centres = 1.5 * torch.randn(12, D, generator=generator)
        which = torch.randint(12, (N,), generator=generator)
        squares = torch.randn(N, 6, generator=generator).square().mean(1)
        tokens = centres[which] + tokens / squares.sqrt()[:, None]
    tokens = tokens * torch.linspace(1, 0.3, D)
    rotation = torch.linalg.qr(torch.randn(D, D, generator=generator)).Q
    return (tokens - tokens.mean(0)) @ rotation


FRAME = torch.linalg.qr(torch.randn(D, 4, generator=torch.Generator().manual_seed(1))).Q
"""Directions of the planted latents, orthonormal columns."""

ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "square": lambda x: x[:, 0].square(),
    "threshold": lambda x: (x[:, 0] > 0.8).float(),
    "ReLU": lambda x: torch.relu(x[:, 0] - 0.8),
    "square and its own line": lambda x: x[:, 0].square() + 2 * x[:, 0],
    "affine and noise": lambda x: 1 + x[:, 0] + 0.1 * torch.randn(N, generator=torch.Generator().manual_seed(2)),
}
TWO: dict[str, Callable[[Tensor], Tensor]] = {
    "rotated ellipsoid of rank 2": lambda x: x[:, 0].square() + x[:, 1].square(),
    "saddle": lambda x: x[:, 0] * x[:, 1],
    "radius of a circle": lambda x: x[:, :2].norm(dim=1),
}
FOUR: dict[str, Callable[[Tensor], Tensor]] = {"ellipsoid of rank 4": lambda x: x.square().sum(1)}


def axes_of(planted: dict[str, Callable[[Tensor], Tensor]]) -> Tensor:
    """Eigenvectors of the planted forms: those of a saddle are its diagonals."""
    diagonals = torch.stack([FRAME[:, 0] + FRAME[:, 1], FRAME[:, 0] - FRAME[:, 1], *FRAME.T[2:]])
    return torch.stack([diagonals if name == "saddle" else FRAME.T for name in planted])


def planted_on(tokens: Tensor, planted: dict[str, Callable[[Tensor], Tensor]]) -> Tensor:
    coordinates = tokens @ FRAME
    coordinates = coordinates / coordinates.std(0)  # an ellipsoid: directions have unequal variances
    return torch.stack([function(coordinates) for function in planted.values()], dim=1)


@pytest.mark.parametrize("distribution", [GAUSSIAN, CLUSTERED])
@pytest.mark.parametrize("told", [True, False])
def test_functions_of_one_direction_have_no_share_beyond_it(distribution: str, told: bool) -> None:
    tokens = tokens_of(distribution)
    found = beyond_one_direction(tokens, planted_on(tokens, ONE), axes_of(ONE) if told else None)
    shares = dict(zip(ONE, found.share, strict=True))
    if not told:  # a centred square has no linear predictor to start from
        del shares["square"]
    assert max(shares.values()) < 0.05, shares


@pytest.mark.parametrize("distribution", [GAUSSIAN, CLUSTERED])
def test_functions_of_more_directions_have_a_share_beyond_one(distribution: str) -> None:
    tokens = tokens_of(distribution)
    two = beyond_one_direction(tokens, planted_on(tokens, TWO), axes_of(TWO)).share
    four = beyond_one_direction(tokens, planted_on(tokens, FOUR), axes_of(FOUR)).share
    assert two.min() > 0.1, two
    assert four.min() > 0.5, four


@pytest.mark.parametrize("distribution", [GAUSSIAN, CLUSTERED])
def test_two_directions_explain_forms_of_rank_two_and_no_more(distribution: str) -> None:
    tokens = tokens_of(distribution)
    two = beyond_two_directions(tokens, planted_on(tokens, TWO), axes_of(TWO)).share
    four = beyond_two_directions(tokens, planted_on(tokens, FOUR), axes_of(FOUR)).share
    assert two.max() < 0.06, two
    assert four.min() > 0.2, four


def test_directions_that_were_planted_are_found() -> None:
    tokens = tokens_of(GAUSSIAN)
    found = beyond_one_direction(tokens, planted_on(tokens, ONE))
    line = found.directions[list(ONE).index("affine and noise"), 0]
    spread = tokens.T.cov().double().numpy()
    cosine = line @ spread @ FRAME[:, 0].double().numpy()
    cosine /= np.sqrt((line @ spread @ line) * (FRAME[:, 0].numpy() @ spread @ FRAME[:, 0].numpy()))
    assert abs(cosine) > 0.99
    np.testing.assert_allclose(np.linalg.norm(found.directions, axis=-1), 1, rtol=1e-5)


def test_noise_is_all_beyond_and_a_constant_is_not() -> None:
    tokens = tokens_of(GAUSSIAN)
    noise = torch.randn(N, generator=torch.Generator().manual_seed(3))
    found = beyond_one_direction(tokens, torch.stack([noise, torch.full((N,), 3.7)], dim=1))
    assert found.share[0] > 0.98
    assert found.share[0] <= 1
    assert found.share[1] == 0


def test_the_order_of_tokens_does_not_matter() -> None:
    tokens = tokens_of(CLUSTERED)
    values = planted_on(tokens, TWO)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(4))
    here = beyond_one_direction(tokens, values, axes_of(TWO), sample=3_000)
    there = beyond_one_direction(tokens[order], values[order], axes_of(TWO), sample=3_000)
    np.testing.assert_array_equal(here.share, there.share)


def test_rows_are_drawn_by_their_numbers_and_the_seed() -> None:
    tokens = tokens_of(GAUSSIAN)
    tokens[7] = tokens[4_000]
    drawn = rows_by_content(tokens, seed=0)
    assert sorted(drawn) == list(range(N))
    assert abs(int(np.flatnonzero(drawn == 7)[0]) - int(np.flatnonzero(drawn == 4_000)[0])) == 1
    assert (rows_by_content(tokens, seed=1) != drawn).mean() > 0.9


def test_too_few_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=f"too few .* give {FEWEST_TOKENS}"):
        beyond_one_direction(torch.randn(20, 4), torch.randn(20, 2))
