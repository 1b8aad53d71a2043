"""Axes: Gram–Schmidt in the order of the columns, and fixed signs."""

import torch

from quadric.geometry.axes import orthonormal, with_fixed_signs


def test_columns_become_orthonormal_in_their_order_and_dependent_ones_vanish():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    frame = orthonormal(torch.stack([first, 2 * first, second, first - second], dim=2))
    assert not frame[..., 1].any()
    assert not frame[..., 3].any()
    kept = frame[..., [0, 2]]
    torch.testing.assert_close(kept.mT @ kept, torch.eye(2, dtype=torch.float64).expand(3, 2, 2))
    torch.testing.assert_close(frame[..., 0], torch.nn.functional.normalize(first, dim=1))
    inside = torch.linalg.lstsq(torch.stack([first, second], dim=2), frame[..., 2:3])
    torch.testing.assert_close(torch.stack([first, second], dim=2) @ inside.solution, frame[..., 2:3])


def test_nothing_stays_nothing():
    assert not orthonormal(torch.zeros(2, 4, 3)).any()


def test_the_largest_entry_is_positive():
    vectors = torch.tensor([[[1.0, -1.0], [-3.0, 2.0]]])
    assert with_fixed_signs(vectors).tolist() == [[[-1.0, -1.0], [3.0, 2.0]]]
