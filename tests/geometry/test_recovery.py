"""Known subspaces in known latents."""

import math

import pytest
import torch
from torch.testing import assert_close

from quadric.autoencoders import BilinearAutoencoder
from quadric.geometry import spectrum
from quadric.geometry.recovery import (
    best_span,
    largest_angle,
    leading_eigenvectors,
    match_subspaces,
    overlaps,
    unit_directions,
)


def orthonormal(d: int, r: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, r, dtype=torch.float64, generator=generator)).Q


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_leading_eigenvectors_are_those_of_the_spectrum(prior: str) -> None:
    options = {"mixing_density": 0.05} if prior == "composite" else {}
    autoencoder = BilinearAutoencoder(d_model=12, n_latents=8, prior=prior, seed=1, **options)
    found = leading_eigenvectors(autoencoder, 3)
    for latent in range(8):
        vectors = spectrum(autoencoder, latent).eigenvectors[:, :3]
        assert_close(found[latent] @ found[latent].mT, vectors @ vectors.mT)


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
