"""Empty and copied latents, made by hand and found from weights."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import copies
from quadric.geometry.copies import redundancy
from quadric.model import bilinear
from tests import zoo


def test_copies_up_to_sign_and_scale_and_empties_are_found() -> None:
    ae = BilinearAutoencoder(d_model=12, n_latents=6, prior="atomic")
    with torch.no_grad():
        ae.left[2], ae.right[2] = -3 * ae.left[0], ae.right[0]
        ae.left[5], ae.right[5] = ae.right[0], ae.left[0]  # the symmetric form is the same
        ae.left[4] = 0
    found = redundancy(ae)
    assert found.copy.tolist() == [False, False, True, False, False, True]
    assert found.copy_of.tolist() == [-1, -1, 0, -1, -1, 0]
    assert found.empty.tolist() == [False, False, False, False, True, False]
    assert found.n_distinct == 3
    assert repr(found) == "Redundancy(6 latents: 1 empty, 2 copies, 3 distinct)"


def test_a_composite_latent_without_entries_is_empty_and_never_a_copy() -> None:
    ae = BilinearAutoencoder(d_model=8, n_latents=20, prior="composite", mixing_density=0.01)  # eight entries
    found = redundancy(ae)
    norms = torch.stack([ae.form(i).norm() for i in range(20)])
    assert found.empty.tolist() == (norms == 0).tolist()
    assert found.empty.any()
    assert not (found.copy & found.empty).any()


def test_a_chain_of_neighbours_keeps_what_is_near_a_copy_only() -> None:
    """A latent near a copy, but not near the original, is distinct."""
    ae = BilinearAutoencoder(d_model=2, n_latents=3, prior="atomic", same_factors=True)
    angles = torch.tensor([0.0, 0.15, 0.30])  # form cosines cos²: 0.978 between neighbours, 0.913 between the ends
    with torch.no_grad():
        ae.left.copy_(torch.stack([angles.cos(), angles.sin()], 1))
    assert redundancy(ae).copy.tolist() == [False, True, False]


def test_directions_of_a_linear_dictionary_count_as_forms() -> None:
    ae = TopKAutoencoder(d_model=6, n_latents=4, n_active=2)
    with torch.no_grad():
        ae.decoder[3] = -ae.decoder[1]
        ae.decoder[2] = 0
    found = redundancy(ae)
    assert found.copy.tolist() == [False, False, False, True]
    assert found.empty.tolist() == [False, False, True, False]


@pytest.mark.parametrize("at_once", [1, 7, 4096])
@pytest.mark.parametrize("variety", ["crowd", "atomic", "composite sparse affine", "composite sparse printed"])
def test_blocks_of_forms_find_the_same_copies(variety: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a crowd of forms on two coordinates, where most are near several others."""
    ae = zoo.make(variety) if variety != "crowd" else BilinearAutoencoder(d_model=2, n_latents=60, prior="atomic")
    with torch.no_grad():
        ae.left[[4, 9]] = 0
    expected = redundancy(ae)
    monkeypatch.setattr(copies, "FORMS_AT_ONCE", at_once)
    monkeypatch.setattr(bilinear, "error_path", lambda **_: "lifted")
    monkeypatch.setattr(copies, "form_kernel", lambda _: pytest.fail("K was formed"))
    found = redundancy(ae)
    assert torch.equal(found.copy_of, expected.copy_of)
    assert torch.equal(found.empty, expected.empty)
    assert variety != "crowd" or 10 < int(found.copy.sum()) < 58
