"""Neighbours against all pairs of materialized eigenvectors; empty and copied latents, made by hand and found."""

from importlib import import_module

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import neighbours, read
from quadric.geometry.neighbours import BLOCK_COLUMNS, redundancy
from tests import zoo
from tests.geometry.centred import SETTINGS, centre_for, parts
from tests.geometry.examples import by_hand, orthonormal, planted_shapes, trained
from tests.zoo import make

neighbours_module = import_module("quadric.geometry.neighbours")  # the package's attribute is the function


def subspace(ae, latent, centre, largest_rank=8):
    """Leading eigenvectors of Q, those that count first, and the direction along which the level sets open."""
    own, alone = parts(ae, latent, centre).quadratic.numpy(), read(ae, latent, centre)
    values, vectors = np.linalg.eigh(own)
    order = np.argsort(-np.abs(values))
    counted = alone.axes.numpy()
    is_counted = np.square(counted.T @ vectors[:, order]).sum(0) > 0.5
    order = np.concatenate([order[is_counted], order[~is_counted]])
    size = round(np.abs(values).sum() ** 2 / max((values**2).sum(), 1e-300))
    direction = alone.direction.numpy()[:, None] / max(float(alone.direction.norm()), 1e-300)
    if alone.shape == "half-space":
        return direction
    if not alone.signature.opens:
        return vectors[:, order[: min(largest_rank, size)]]
    size = max(size, min(2, counted.shape[1]))
    chosen = vectors[:, order[: min(largest_rank - 1, size)]]
    found = np.linalg.svd(np.concatenate([direction, chosen], 1), full_matrices=False)
    return found.U[:, found.S > 1e-5]  # the direction may lie in the span of the eigenvectors


def naive_overlaps(ae, centre=None):
    bases = [subspace(ae, i, centre) for i in range(ae.n_latents)]
    overlaps = np.zeros((len(bases), len(bases)))
    for i, a in enumerate(bases):
        for j, b in enumerate(bases):
            if a.shape[1] and b.shape[1]:
                overlaps[i, j] = ((a.T @ b) ** 2).sum() / np.sqrt(a.shape[1] * b.shape[1])
    return overlaps, [basis.shape[1] for basis in bases]


@pytest.mark.parametrize("block", [BLOCK_COLUMNS, 3])
@pytest.mark.parametrize(("variety", "where"), [*SETTINGS, ("trained", "origin"), ("trained", "centre")])
def test_neighbours_are_the_largest_overlaps(variety, where, block, monkeypatch):
    monkeypatch.setattr(neighbours_module, "BLOCK_COLUMNS", block)
    ae = trained() if variety == "trained" else make(variety)
    centre = centre_for(where)
    expected, ranks = naive_overlaps(ae, centre)
    found = neighbours(ae, count=5, centre=centre)
    assert found.ranks.tolist() == ranks
    assert found.latents.shape == found.overlaps.shape == (ae.n_latents, 5)
    for i in range(ae.n_latents):
        row = np.delete(expected[i], i)
        np.testing.assert_allclose(found.overlaps[i], -np.sort(-row)[:5], atol=1e-5)
        np.testing.assert_allclose(expected[i, found.latents[i]], found.overlaps[i], atol=1e-5)
        assert i not in found.latents[i].tolist()


def test_linear_latents_are_near_by_their_direction_and_not_through_the_mean():
    """(m·x)(v·x) for three directions v: about the origin all overlap by a half, about the mean by (v·v')²."""
    axes = orthonormal(8, 4).mT.float()
    m, others = axes[:1], torch.stack([axes[1], axes[2], (axes[1] + axes[3]) / 2**0.5])
    ae = by_hand(m.expand(3, 8).contiguous(), others, torch.eye(3))
    about_origin, about_mean = neighbours(ae, count=2), neighbours(ae, count=2, centre=0.7 * m[0])
    assert about_origin.overlaps.min() > 0.49
    assert about_mean.ranks.tolist() == [1, 1, 1]
    assert about_mean.latents[0].tolist() == [2, 1]
    assert about_mean.overlaps[0].tolist() == pytest.approx([0.5, 0], abs=1e-5)


def test_planted_neighbours():
    """Two circles in one plane are each other's neighbours, whatever their radii; the third shares one axis."""
    axes = orthonormal(8, 4).mT.float()
    mixing = torch.tensor([[1.0, 1, 0, 0], [3.0, 3, 0, 0], [0, 1.0, 1, 0], [0, 0, 0, 1.0]])
    found = neighbours(by_hand(axes, axes.clone(), mixing), count=3)
    assert found.ranks.tolist() == [2, 2, 2, 1]
    assert found.latents[0].tolist()[:2] == [1, 2]
    assert found.overlaps[0].tolist() == pytest.approx([1, 0.5, 0], abs=1e-5)


def test_empty_latents_have_no_overlap_and_are_nobodys_neighbour():
    found = neighbours(planted_shapes())
    assert found.latents.shape == (6, 5)
    assert found.overlaps[4].tolist() == [0] * 5
    assert found.ranks[4] == 0


def test_a_single_latent_has_no_neighbours():
    found = neighbours(BilinearAutoencoder(d_model=3, n_latents=1, prior="atomic"))
    assert found.latents.shape == (1, 0)


def test_progress_counts_decompositions_and_neighbours():
    ae = make("quadratic")
    told = []
    neighbours(ae, on_progress=lambda *report: told.append(report))
    assert told[-1] == ("geometry", 2 * ae.n_latents, 2 * ae.n_latents, "")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="count=0"):
        neighbours(trained(), count=0)


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
    monkeypatch.setattr(neighbours_module, "FORMS_AT_ONCE", at_once)
    monkeypatch.setattr(neighbours_module, "LARGEST_KERNEL", 0)
    monkeypatch.setattr(neighbours_module, "form_kernel", lambda _: pytest.fail("K was formed"))
    found = redundancy(ae)
    assert torch.equal(found.copy_of, expected.copy_of)
    assert torch.equal(found.empty, expected.empty)
    assert variety != "crowd" or 10 < int(found.copy.sum()) < 58
