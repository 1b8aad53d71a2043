"""Known subspaces in known latents."""

import math

import pytest
import torch
from torch.testing import assert_close

from benchmarks.planted import (
    KnownManifold,
    best_span,
    largest_angle,
    leading_directions,
    match_subspaces,
    overlaps,
    quadric_centre,
    recover,
    unit_directions,
)
from quadric.geometry import read
from quadric.geometry.quadrics import AffineForm, lens_affine_form
from tests.geometry.examples import by_hand


def orthonormal(d: int, r: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, r, dtype=torch.float64, generator=generator)).Q


def test_a_latent_on_the_subspace_overlaps_fully_and_one_beside_it_not_at_all() -> None:
    frame = orthonormal(10, 6, 0)
    latents = torch.stack([frame[:, 3:], frame[:, :3]])
    assert_close(overlaps(latents, frame[:, :3]), torch.tensor([0.0, 1.0], dtype=torch.float64))


def test_the_largest_angle_is_the_tilt_that_was_made() -> None:
    frame = orthonormal(10, 4, 0)
    tilted = torch.stack([frame[:, 0], math.cos(0.3) * frame[:, 1] + math.sin(0.3) * frame[:, 2]], dim=1)
    assert largest_angle(tilted, frame[:, :2]) == pytest.approx(math.degrees(0.3))
    assert overlaps(tilted[None], frame[:, :2]).item() == pytest.approx((1 + math.cos(0.3) ** 2) / 2)


def test_a_single_direction_reaches_one_rth_of_a_subspace() -> None:
    frame = orthonormal(10, 3, 0)
    (match,) = match_subspaces(unit_directions(5 * frame[:, :1].mT), [frame])
    assert match.overlap == pytest.approx(1 / 3)
    assert match.angle == 90.0


def test_no_latent_is_given_to_two_subspaces() -> None:
    frame = orthonormal(10, 4, 0)
    both = torch.stack([frame[:, :2], frame[:, 1:3]])  # the first fits both subspaces best
    subspaces = [frame[:, :2], (frame[:, :2] + 0.1 * frame[:, 2:4]) / math.sqrt(1.01)]
    assert sorted(match.latent for match in match_subspaces(both, subspaces)) == [0, 1]
    with pytest.raises(ValueError, match="3 subspaces exceed 2 latents"):
        match_subspaces(both, [*subspaces, frame[:, 2:]])


def test_directions_inside_a_subspace_span_it_together() -> None:
    frame = orthonormal(10, 3, 0)
    inside = (frame @ torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))).mT
    outside = orthonormal(10, 6, 5).mT
    found = best_span(unit_directions(torch.cat([outside, inside])), frame)
    assert overlaps(found[None], frame).item() == pytest.approx(1.0)


D, SCALE = 10, 0.3


def written_form(quadratic: torch.Tensor, linear: torch.Tensor) -> AffineForm:
    """z = vᵀQv + bᵀv as a form in the coordinates [v; c] of a lens."""
    matrix = torch.zeros(D + 1, D + 1, dtype=torch.float64)
    matrix[:D, :D] = quadratic
    matrix[:D, D] = matrix[D, :D] = linear / (2 * SCALE)
    return lens_affine_form(matrix, SCALE)


def known(subspace: torch.Tensor, n_curved: int, centre: torch.Tensor, has_linear: bool = False) -> KnownManifold:
    return KnownManifold(subspace, subspace[:, :n_curved], has_linear, centre, radius=0.5)


def test_a_sphere_about_its_own_centre_is_recovered_with_subspace_and_centre() -> None:
    frame, mean = orthonormal(D, 6, 0), torch.full((D,), 0.2, dtype=torch.float64)
    basis, centre = frame[:, :3], torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64)
    about_mean = centre - basis.mT @ mean
    sphere = written_form(basis @ basis.mT, -2 * basis @ about_mean)  # |Bᵀv − about_mean|² up to a constant
    other = written_form(frame[:, 3:] @ frame[:, 3:].mT, torch.zeros(D, dtype=torch.float64))
    (found,) = recover([other, sphere], mean, [known(basis, 3, centre)], variance=0.01)
    assert found.latent == 1
    assert found.overlap == pytest.approx(1)
    assert found.centre_distance == pytest.approx(0, abs=1e-9)
    (moved,) = recover([other, sphere], mean, [known(basis, 3, centre + 0.25)], variance=0.01)
    assert moved.centre_distance == pytest.approx(0.25 * math.sqrt(3) / 0.5)


def test_a_raw_form_has_its_centre_where_its_gradient_vanishes_inside_the_subspace() -> None:
    """A circle about an axis along the mean: x² + y² + 2·shift·(m·u)·x, so that the centre is at −shift·‖μ‖."""
    frame = orthonormal(D, 3, 1)
    m, plane = frame[:, 0], frame[:, 1:]
    latent = by_hand(
        torch.stack([*plane.mT, m]), torch.stack([*plane.mT, plane[:, 0]]), torch.tensor([[1.0, 1.0, 0.8]]).double()
    )
    form = read(latent, 0, 0.7 * m).form
    assert_close(plane.mT @ quadric_centre(form, 2), torch.tensor([-0.4 * 0.7, 0.0], dtype=torch.float64))


def test_the_axis_of_a_paraboloid_comes_from_its_linear_part() -> None:
    frame = orthonormal(D, 3, 2)
    form = written_form(2 * frame[:, :2] @ frame[:, :2].mT, -frame[:, 2])
    zero = torch.zeros(2, dtype=torch.float64)
    mean = torch.zeros(D, dtype=torch.float64)
    (with_axis,) = recover([form], mean, [known(frame, 2, zero, has_linear=True)], variance=0.01)
    (without,) = recover([form], mean, [known(frame, 2, zero)], variance=0.01)
    assert with_axis.overlap == pytest.approx(1)
    assert with_axis.centre_distance == pytest.approx(0, abs=1e-9)
    assert without.overlap < 0.9


def test_leading_directions_are_those_of_the_mean_squared_gradient() -> None:
    generator = torch.Generator().manual_seed(3)
    square = torch.randn(D, D, dtype=torch.float64, generator=generator)
    linear = 3 * torch.randn(D, dtype=torch.float64, generator=generator)
    form = written_form((square + square.mT) / 2, linear)
    tokens = 0.5 * torch.randn(200_000, D, dtype=torch.float64, generator=generator)
    gradients = tokens @ (square + square.mT) + linear
    expected = torch.linalg.eigh(gradients.mT @ gradients / len(tokens)).eigenvectors[:, -1]
    (found,) = leading_directions([form], 1, variance=0.25)
    assert (found[:, 0] @ expected).abs().item() == pytest.approx(1, abs=1e-3)


def test_a_linear_latent_recovers_a_direction() -> None:
    frame = orthonormal(D, 2, 4)
    weak = 1e-3 * frame[:, 1:] @ frame[:, 1:].mT
    target = known(frame[:, :1], 1, torch.zeros(1, dtype=torch.float64), has_linear=True)
    (found,) = recover([written_form(weak, frame[:, 0])], torch.zeros(D, dtype=torch.float64), [target], variance=0.01)
    assert found.overlap == pytest.approx(1)
