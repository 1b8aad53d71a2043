"""Bits of latents and of whole dictionaries, counted by hand."""

from math import comb, log2

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import description_length
from tests.geometry.examples import by_hand, planted_shapes


def test_an_atomic_latent_is_its_two_vectors():
    found = description_length(BilinearAutoencoder(d_model=50, n_latents=6, prior="atomic"))
    assert found.precision == 32
    assert found.alone.tolist() == [2 * 50 * 32] * 6
    assert (found.supports, found.weights, found.total) == (0, 0, 6 * 2 * 50 * 32)


def test_a_tied_atom_is_one_vector():
    tied = BilinearAutoencoder(d_model=50, n_latents=6, prior="atomic", same_factors=True)
    assert description_length(tied, precision=8).total == 6 * 50 * 8


def test_a_composite_latent_pays_for_its_support_its_weights_and_its_atoms():
    axes = torch.eye(40)[:10]
    mixing = torch.zeros(3, 10)
    mixing[0, :2], mixing[1, 1] = 1, 1
    found = description_length(by_hand(axes, axes, mixing), precision=16)
    support = [log2(11) + log2(comb(10, s)) for s in (2, 1, 0)]
    assert found.supports == pytest.approx(sum(support))
    assert found.weights == 3 * 16
    assert found.atoms == 2 * 80 * 16  # the shared atom once, the eight unused ones not at all
    assert found.alone.tolist() == pytest.approx(
        [support[0] + 2 * 16 + 160 * 16, support[1] + 16 + 80 * 16, support[2]]
    )
    assert found.total == pytest.approx(found.atoms + found.supports + found.weights)


def test_a_quadratic_latent_alone_is_never_longer_than_its_matrix():
    ae = BilinearAutoencoder(d_model=6, n_latents=4, n_hidden=30, prior="quadratic")
    found = description_length(ae)
    assert found.alone.tolist() == [32 * 21] * 4
    assert (found.supports, found.weights, found.atoms) == (0, 4 * 30 * 32, 30 * 12 * 32)


def test_sharing_atoms_makes_the_whole_shorter_than_its_parts():
    axes = torch.eye(30)[:4]
    ae = by_hand(axes, axes, torch.ones(20, 4))
    found = description_length(ae)
    assert found.total < float(found.alone.sum())


def test_a_half_precision_autoencoder_is_counted_at_half_precision():
    ae = BilinearAutoencoder(d_model=9, n_latents=3, prior="atomic", dtype=torch.bfloat16)
    assert description_length(ae).precision == 16


def test_a_direction_costs_what_it_writes():
    found = description_length(TopKAutoencoder(d_model=9, n_latents=5, n_active=2))
    assert found.alone.tolist() == [9 * 32] * 5
    assert (found.supports, found.weights, found.atoms) == (0, 0, 5 * 9 * 32)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="precision=0"):
        description_length(planted_shapes(), precision=0)
