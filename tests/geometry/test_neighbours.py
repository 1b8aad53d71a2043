"""Neighbours by subspace overlap, against all pairs of materialized eigenvectors."""

from importlib import import_module

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.geometry import neighbours, read
from quadric.geometry.neighbours import BLOCK_COLUMNS
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


def test_the_largest_rank_is_kept_to():
    ae = make("quadratic")
    assert max(neighbours(ae, largest_rank=2).ranks.tolist()) == 2
    told = []
    neighbours(ae, on_progress=lambda *report: told.append(report))
    assert told[-1] == ("geometry", 2 * ae.n_latents, 2 * ae.n_latents, "")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="count=0"):
        neighbours(trained(), count=0)
