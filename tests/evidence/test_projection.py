"""Coordinates: both ways of computing them, and axes that are the eigenvectors."""

import numpy as np
import pytest
import torch

from quadric.evidence.projection import control_frame, leading_axes, places_within, project
from quadric.geometry import spectrum
from tests import zoo


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


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_axes_are_the_leading_eigenvectors_with_a_fixed_sign(variety: str) -> None:
    ae = zoo.make(variety, torch.float32)
    axes = leading_axes(ae, 5)
    for latent in range(ae.n_latents):
        values = spectrum(ae, latent).eigenvalues
        kept = min(5, len(values))
        form = axes[latent, :, :kept].double()
        torch.testing.assert_close(form.mT @ form, torch.eye(kept, dtype=torch.float64), atol=1e-5, rtol=0)
        rebuilt = (form.mT @ ae.form(latent).double() @ form).diagonal()
        torch.testing.assert_close(rebuilt, values[:kept], atol=1e-5, rtol=1e-4)
        assert (axes[latent, :, kept:] == 0).all()
        largest = form.gather(0, form.abs().argmax(0, keepdim=True))
        assert (largest > 0).all()


def test_the_control_frame_is_orthonormal_seeded_and_filled_up_in_a_narrow_model() -> None:
    frame = control_frame(20, 3)
    torch.testing.assert_close(frame.mT @ frame, torch.eye(3))
    assert torch.equal(frame, control_frame(20, 3))
    assert not torch.equal(frame, control_frame(20, 4))
    assert control_frame(2, 0).shape == (2, 3)


def test_places_within_groups_count_from_zero() -> None:
    assert places_within(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
