"""The latents to look at first: curved, sparse, distinct."""

from dataclasses import replace

import numpy as np
import torch

from quadric.evidence import Evidence
from quadric.evidence.ranking import RANKING, RANKING_OF_DIRECTIONS, worth
from quadric.geometry import Redundancy
from tests.evidence.test_collector import collected, finished

EVIDENCE = finished(collected())


def with_columns(**columns: list[float]) -> Evidence:
    arrays = {name: np.array(column, dtype=np.float32) for name, column in columns.items()}
    return replace(EVIDENCE, statistics=replace(EVIDENCE.statistics, **arrays))


def test_curved_sparse_and_strong_latents_come_first_and_the_useless_ones_last() -> None:
    evidence = with_columns(
        curvature=[1, 0.1, 1, 1, 1, 0], density=[0.1, 0.1, 0.4, 0.9, 0.1, 0], mean_square=[1, 1, 1, 1, 4, 0]
    )
    empty, copy_of = torch.tensor([0, 0, 0, 0, 0, 1], dtype=torch.bool), torch.full((6,), -1)
    found = worth(evidence, Redundancy(empty, copy_of))
    np.testing.assert_allclose(found, [0.9, 0.09, 0.6, 0, 1.8, 0], rtol=1e-6)
    copy_of[4] = 0
    assert worth(evidence, Redundancy(empty, copy_of))[4] == 0


def test_the_rule_is_stated() -> None:
    assert "curvature" in RANKING
    assert "copies" in RANKING


def test_the_curvature_of_a_direction_is_its_gates_and_does_not_rank_it() -> None:
    evidence = with_columns(curvature=[1, 0.1, 0, 1, 1, 0], density=[0.1] * 6, mean_square=[1, 1, 1, 1, 4, 0])
    nothing = Redundancy(torch.zeros(6, dtype=torch.bool), torch.full((6,), -1))
    np.testing.assert_allclose(worth(evidence, nothing, is_linear=True), [0.9, 0.9, 0.9, 0.9, 1.8, 0], rtol=1e-6)
    assert "curvature" not in RANKING_OF_DIRECTIONS
