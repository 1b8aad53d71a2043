"""The comparison as a whole: it repeats the single measures and adds overlap and nulls."""

import pytest
import torch

from quadric.geometry import compare, frobenius_similarity, hungarian_similarity
from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.similarity import randomly_initialized
from tests.geometry.examples import by_hand, planted_shapes, trained


def test_a_comparison_repeats_the_single_measures():
    a, b = trained(), trained("atomic", seed=1)
    found = compare(a, b)
    assert found.agreement.frobenius == frobenius_similarity(a, b)
    assert found.agreement.hungarian.similarity == hungarian_similarity(a, b).similarity
    assert found.agreement.sign_free.alignment == hungarian_similarity(a, b, sign_free=True).alignment
    null = randomly_initialized(b, NULL_SEED)
    assert found.random.frobenius == frobenius_similarity(a, null)
    assert found.random.hungarian.symmetric == hungarian_similarity(a, null).symmetric
    assert compare(a, b, null_seed=3).random.frobenius != found.random.frobenius


def test_a_run_with_itself():
    found = compare(trained(), trained())
    assert found.agreement.frobenius == 1.0
    assert found.agreement.hungarian.alignment == pytest.approx(1.0, rel=1e-12)  # K and M are summed in other orders
    assert found.agreement.eigenspaces == pytest.approx(1, rel=1e-9)


def test_eigenspaces_compare_subspaces_of_the_product_space():
    """Two bases of the same space of forms overlap fully; spaces that share half overlap by half."""
    axes = torch.eye(6)
    plane = by_hand(axes[:2], axes[:2], torch.eye(2))
    turned = by_hand(axes[:2], axes[:2], torch.tensor([[0.6, 0.8], [-0.8, 0.6]]))
    shifted = by_hand(axes[1:3], axes[1:3], torch.eye(2))
    assert compare(plane, turned).agreement.eigenspaces == pytest.approx(1)
    assert compare(plane, turned).agreement.hungarian.alignment == pytest.approx(0.6)
    assert compare(plane, turned).agreement.sign_free.alignment == pytest.approx(0.8)
    assert compare(plane, shifted).agreement.eigenspaces == pytest.approx(0.5)


def test_nothing_to_compare():
    nothing = by_hand(torch.zeros(2, 3), torch.zeros(2, 3), torch.eye(2))
    found = compare(nothing, nothing)
    assert (found.agreement.frobenius, found.agreement.eigenspaces, found.rotated_eigenspaces) == (1.0, 0.0, 0.0)


def test_different_widths_are_refused_unless_forced():
    a, b = planted_shapes(), by_hand(torch.eye(3), torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="d_model=12 and d_model=3 differ"):
        compare(a, b)
    assert 0 < compare(a, b, force=True).agreement.frobenius < 1
