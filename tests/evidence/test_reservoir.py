"""The draw follows its law, with exact inclusion probabilities on a small population; coordinates of drawn points."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from quadric.evidence.reservoir import (
    Block,
    Reservoir,
    control_frame,
    latent_counters,
    pair_hashes,
    places_within,
    project,
    token_counters,
)

VALUES = np.array([0.0, 0.3, -0.5, 0.6, -0.8], dtype=np.float32)
EPSILON = 0.2


def drawn_sets(n_draws: int, n_points: int, batches: list[slice]) -> np.ndarray:
    """Many latents with the same values: as many independent draws."""
    reservoir = Reservoir(n_draws, n_points, 1, EPSILON, seed=7)
    places = np.arange(len(VALUES)) * 3 + 1
    counters = token_counters(7, places)
    for rows in batches:
        values = np.repeat(VALUES[None, rows], n_draws, axis=0)
        block = Block(
            slice(0, n_draws), values, places[rows], torch.zeros(values.shape[1], 2), torch.zeros(n_draws, 2, 1)
        )
        reservoir.update(block, type(counters)(counters.first[rows], counters.second[rows]))
    return np.sort((reservoir.places - 1) // 3, axis=1)


def law(n_points: int) -> dict[tuple[int, ...], float]:
    """The probability of every set: one token after the other, each in proportion to its weight among the rest."""
    weights = (np.abs(VALUES.astype(float)) + EPSILON) ** 4
    found: dict[tuple[int, ...], float] = {}
    for order in permutations(range(len(VALUES)), n_points):
        left, probability = weights.sum(), 1.0
        for token in order:
            probability *= weights[token] / left
            left -= weights[token]
        found[tuple(sorted(order))] = found.get(tuple(sorted(order)), 0) + probability
    return found


def test_every_set_of_tokens_is_drawn_as_often_as_the_law_says() -> None:
    expected = law(2)
    drawn, counts = np.unique(drawn_sets(40_000, 2, [slice(0, 5)]), axis=0, return_counts=True)
    observed = {tuple(each): count for each, count in zip(drawn.tolist(), counts, strict=True)}
    frequencies = np.array([observed.get(each, 0) for each in expected])
    assert chisquare(frequencies, np.array(list(expected.values())) * 40_000).pvalue > 0.001


def test_a_wrong_law_would_be_noticed() -> None:
    """The chi-square test has the power to tell |z|³ from |z|⁴."""
    expected = law(2)
    drawn, counts = np.unique(drawn_sets(40_000, 2, [slice(0, 5)]), axis=0, return_counts=True)
    observed = {tuple(each): count for each, count in zip(drawn.tolist(), counts, strict=True)}
    wrong = np.array(list(expected.values())) ** 0.9
    frequencies = np.array([observed.get(each, 0) for each in expected])
    assert chisquare(frequencies, wrong / wrong.sum() * 40_000).pvalue < 1e-6


def test_batches_of_any_size_give_the_same_draw() -> None:
    whole = drawn_sets(500, 3, [slice(0, 5)])
    np.testing.assert_array_equal(drawn_sets(500, 3, [slice(i, i + 1) for i in range(5)]), whole)
    np.testing.assert_array_equal(drawn_sets(500, 3, [slice(3, 5), slice(0, 3)]), whole)


def test_all_tokens_are_kept_while_there_is_room() -> None:
    drawn = drawn_sets(3, 8, [slice(0, 2), slice(2, 5)])
    np.testing.assert_array_equal(drawn[:, 3:], np.tile(np.arange(5), (3, 1)))
    assert (drawn[:, :3] < 0).all()


def test_hashes_are_uniform_along_tokens_and_along_latents_and_unrelated() -> None:
    hashes = pair_hashes(latent_counters(0, 300), token_counters(0, np.arange(300))) / 2**32
    assert kstest(hashes[0], "uniform").pvalue > 1e-4
    assert kstest(hashes[:, 0], "uniform").pvalue > 1e-4
    assert kstest(hashes.ravel(), "uniform").pvalue > 1e-4
    correlations = np.corrcoef(hashes) - np.eye(300)
    assert np.abs(correlations).max() < 6 / np.sqrt(300)
    assert abs(correlations.sum() / (300 * 299)) < 5 / 300 / np.sqrt(300)


def test_seeds_give_different_draws() -> None:
    ids = np.arange(100)
    first = pair_hashes(latent_counters(0, 10), token_counters(0, ids))
    second = pair_hashes(latent_counters(1, 10), token_counters(1, ids))
    assert (first != second).mean() > 0.99


@pytest.mark.parametrize("share", [0.02, 0.2, 0.3, 1.0])
def test_few_and_many_pairs_are_projected_alike(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens, axes = torch.randn(50, 7, generator=generator), torch.randn(6, 7, 3, generator=generator)
    wanted = torch.rand(6, 50, generator=generator) < share
    wanted[4] = False
    latents, chosen = (part.numpy() for part in wanted.nonzero(as_tuple=True))
    expected = [tokens[t] @ axes[i] for i, t in zip(latents, chosen, strict=True)]
    np.testing.assert_allclose(project(tokens, axes, latents, chosen), torch.stack(expected), atol=1e-5)


def test_no_pair_gives_no_coordinates() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert project(torch.ones(5, 4), torch.ones(2, 4, 3), nothing, nothing).shape == (0, 3)


def test_the_control_frame_is_orthonormal_seeded_and_filled_up_in_a_narrow_model() -> None:
    frame = control_frame(20, 3)
    torch.testing.assert_close(frame.mT @ frame, torch.eye(3))
    assert torch.equal(frame, control_frame(20, 3))
    assert not torch.equal(frame, control_frame(20, 4))
    assert control_frame(2, 0).shape == (2, 3)


def test_places_within_groups_count_from_zero() -> None:
    assert places_within(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
