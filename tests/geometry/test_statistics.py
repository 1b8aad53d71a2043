"""The table of all latents: planted truths, dense references, edges; and bits, counted by hand."""

from functools import partial
from math import comb, log2

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import Centre, description_length, statistics
from tests.geometry.centred import a_centre, curvature, parts
from tests.geometry.examples import by_hand, planted_shapes, trained
from tests.zoo import VARIETIES, make


def dense_statistics(ae, centre):
    """The appendix's formulas on numpy.linalg.eigh of every materialized quadratic part."""
    own = [parts(ae, i, centre) for i in range(ae.n_latents)]
    values = np.stack([np.linalg.eigvalsh(each.quadratic.numpy()) for each in own])
    sizes = -np.sort(-np.abs(values), axis=1)
    nuclear, energy = sizes.sum(1), (sizes**2).sum(1)
    norms = np.array([float(ae.form(i).double().norm()) for i in range(ae.n_latents)])
    return {
        "importance": norms**2 / (norms**2).mean(),
        "curvature": np.array([curvature(each) for each in own]),
        "effective_rank": nuclear**2 / energy,
        "captured_1": sizes[:, :1].sum(1) / nuclear,
        "captured": sizes[:, :3].sum(1) / nuclear,
        "captured_5": sizes[:, :5].sum(1) / nuclear,
        "norm": norms,
    }


def autoencoders():
    """Built by the test: every test process collects this file, and only one of them runs it."""
    return [pytest.param(partial(make, variety), id=variety) for variety in VARIETIES if "sparse" not in variety] + [
        pytest.param(partial(trained, prior), id=f"trained {prior}") for prior in ("atomic", "composite", "quadratic")
    ]


@pytest.mark.parametrize("centre", [None, a_centre(), Centre(a_centre().mean)], ids=["origin", "centre", "mean"])
@pytest.mark.parametrize("build", autoencoders())
def test_statistics_match_dense_eigh(build, centre):
    ae = build()
    table = statistics(ae, centre=centre)
    living = table.norm > 0
    for column, expected in dense_statistics(ae, centre).items():
        np.testing.assert_allclose(table[column][living], expected[living], rtol=1e-6, atol=1e-6)
    assert float(table.importance.mean()) == pytest.approx(1)


def test_planted_shapes_are_reported_as_what_they_are():
    table = statistics(planted_shapes())
    assert table.figure == ("circle", "sphere", "hyperbola", "slab", "empty", "ellipse")
    assert table.shape == ("ellipsoid", "ellipsoid", "hyperboloid", "slab", "empty", "ellipsoid")
    assert table.dimension.tolist() == [2, 3, 2, 1, 0, 2]
    assert table.positive.tolist() == [2, 3, 1, 1, 0, 0]
    assert table.negative.tolist() == [0, 0, 1, 0, 0, 2]
    assert table.sign.tolist() == [1, 1, 0, 1, 0, -1]
    assert table.support.tolist() == [2, 3, 2, 1, 0, 2]
    assert table.effective_rank.tolist() == pytest.approx([2, 3, 2, 1, 0, 25 / 17], abs=1e-6)
    assert table.captured_1.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 2, 1, 0, 4 / 5], abs=1e-6)
    assert table.captured.tolist() == pytest.approx([1, 1, 1, 1, 0, 1], abs=1e-6)
    energies = torch.tensor([2, 0.75, 2, 4, 0, 17])
    assert table.importance.tolist() == pytest.approx((energies / energies.mean()).tolist(), abs=1e-5)
    assert table.eigenvalue.tolist()[5] == pytest.approx(-4, abs=1e-5)


def test_copies_are_named_in_the_table():
    ae = planted_shapes()
    with torch.no_grad():
        ae.mixing.weight[4] = -2 * ae.mixing.weight[0]
        ae.mixing.mask[4] = ae.mixing.mask[0]
    table = statistics(ae)
    assert table.copy_of.tolist() == [-1, -1, -1, -1, 0, -1]


def test_a_planted_difference_may_also_be_one_bilinear_atom():
    """uuᵀ − vvᵀ = sym((u + v)(u − v)ᵀ): one atom, not two."""
    ae = BilinearAutoencoder(d_model=7, n_latents=1, prior="atomic")
    with torch.no_grad():
        ae.left.copy_(torch.eye(7)[0] + torch.eye(7)[1])
        ae.right.copy_(torch.eye(7)[0] - torch.eye(7)[1])
    table = statistics(ae)
    assert (table.figure, table.support.tolist()) == (("hyperbola",), [1])
    assert table.eigenvalues[0].abs().tolist() == pytest.approx([1, 1])


def test_flipping_a_latents_sign_changes_only_its_sign():
    ae = planted_shapes()
    before = statistics(ae)
    with torch.no_grad():
        ae.mixing.weight.neg_()
    after = statistics(ae)
    assert after.shape == before.shape
    assert after.figure == before.figure
    assert after.sign.tolist() == (-before.sign).tolist()
    torch.testing.assert_close(after.effective_rank, before.effective_rank)
    assert (after.positive.tolist(), after.negative.tolist()) == (before.negative.tolist(), before.positive.tolist())


def test_the_captured_curve_rises_to_one():
    table = statistics(trained())
    curve = table.captured_curve()
    assert bool((curve.diff(dim=1) >= 0).all())
    torch.testing.assert_close(curve[:, -1][table.norm > 0], torch.ones(int((table.norm > 0).sum())).double())
    torch.testing.assert_close(curve[:, 2], table.captured)


def test_the_table_gives_columns_by_name_and_as_plain_lists():
    table = statistics(planted_shapes(), tolerance=0.01)
    assert len(table) == 6
    assert table.tolerance == 0.01
    assert table["support"] is table.support
    columns = table.columns()
    assert next(iter(columns)) == "latent"
    assert all(len(column) == 6 and not isinstance(column[0], torch.Tensor) for column in columns.values())
    with pytest.raises(KeyError, match="no column 'rank'; there are importance, effective_rank"):
        _ = table["rank"]


@pytest.mark.parametrize(("d", "h"), [(1, 1), (1, 4), (5, 1)])
def test_the_smallest_sizes(d, h):
    table = statistics(BilinearAutoencoder(d_model=d, n_latents=3, n_hidden=h, prior="quadratic"))
    assert bool(table.effective_rank.isfinite().all())
    assert int(table.dimension.max()) <= min(d, 2 * h)
    assert bool((table.captured_5 <= 1 + 1e-12).all())


def test_a_dictionary_of_nothing_has_no_importance():
    ae = BilinearAutoencoder(d_model=4, n_latents=3, prior="quadratic")
    with torch.no_grad():
        ae.mixing.weight.zero_()
    table = statistics(ae)
    assert table.importance.tolist() == table.captured.tolist() == [0, 0, 0]
    assert table.shape == ("empty",) * 3


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
    with pytest.raises(ValueError, match="tolerance=2"):
        statistics(planted_shapes(), tolerance=2.0)
    with pytest.raises(ValueError, match="precision=0"):
        description_length(planted_shapes(), precision=0)
