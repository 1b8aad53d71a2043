"""Schedules are functions of the step alone."""

from itertools import pairwise

import pytest

from quadric.training.schedules import alpha_at, is_mask_frozen, mixing_density_at


def test_alpha_warms_up_linearly_and_stays():
    assert [alpha_at(step, 0.3, 4) for step in range(6)] == pytest.approx([0, 0.075, 0.15, 0.225, 0.3, 0.3])
    assert alpha_at(0, 0.3, 0) == 0.3


def test_density_decays_geometrically_over_the_first_half():
    densities = [mixing_density_at(step, 100, 0.001) for step in range(101)]
    assert densities[0] == 1
    assert densities[25] == pytest.approx(0.001**0.5)
    assert densities[50:] == [0.001] * 51
    ratios = [later / earlier for earlier, later in pairwise(densities[:51])]
    assert max(ratios) - min(ratios) < 1e-12


def test_mask_freezes_for_the_last_fifth():
    assert [is_mask_frozen(step, 10) for step in range(10)] == [False] * 8 + [True] * 2
