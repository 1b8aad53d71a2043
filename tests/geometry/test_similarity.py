"""Similarities: invariance, exactness, assignments, and what is refused."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import (
    compare,
    frobenius_similarity,
    hungarian_similarity,
    kernels,
    latent_form,
    without_mean,
)
from quadric.geometry.similarity import comparable, randomly_initialized
from quadric.model import Provenance
from quadric.model.lens import AffineLens
from tests.geometry.examples import by_hand, orthonormal, planted_shapes, trained
from tests.naive import mixing_matrix
from tests.zoo import VARIETIES, make


def permuted(ae, order, signs=None):
    """The same latents in another order, some turned to −W."""
    signs = torch.ones(ae.n_latents) if signs is None else signs
    left, right = ae.left.detach().clone(), ae.right.detach().clone()
    mixing = (signs.to(left)[:, None] * mixing_matrix(ae).detach())[order]
    return by_hand(left, right, mixing)


@pytest.mark.parametrize("variety", VARIETIES)
def test_a_run_agrees_exactly_with_itself_and_with_its_copy(variety, tmp_path):
    for dtype in (torch.float32, torch.float64):
        ae = make(variety, dtype)
        ae.save_pretrained(tmp_path)
        for other in (ae, quadric.load(tmp_path)):
            assert frobenius_similarity(ae, other) == 1.0
            found = hungarian_similarity(ae, other)
            assert (found.similarity, found.symmetric, found.alignment) == (1.0, 1.0, 1.0)
            assert float(found) == 1.0
            assert found.partners.tolist() == list(range(ae.n_latents))
            assert hungarian_similarity(ae, other, sign_free=True).similarity == 1.0


def test_large_runs_agree_exactly_with_themselves_too(monkeypatch):
    monkeypatch.setattr(kernels, "CHEAP_IN_DOUBLE", 0)
    monkeypatch.setattr(kernels, "ATOM_BLOCK", 7)
    ae = trained()
    assert frobenius_similarity(ae, ae) == 1.0
    assert hungarian_similarity(ae, ae).similarity == 1.0


@given(st.permutations(range(20)))
@settings(max_examples=20)
def test_the_order_of_latents_does_not_matter(order):
    a, b = trained(), trained(seed=1)
    shuffled = permuted(b, order)
    assert frobenius_similarity(a, shuffled) == pytest.approx(frobenius_similarity(a, b), rel=1e-12)
    assert frobenius_similarity(shuffled, b) == pytest.approx(1, rel=1e-12)
    before, after = hungarian_similarity(a, b), hungarian_similarity(a, shuffled)
    assert after.similarity == pytest.approx(before.similarity, rel=1e-12)
    assert after.alignment == pytest.approx(before.alignment, rel=1e-12)
    assert [order[j] for j in after.partners.tolist()] == before.partners.tolist()
    itself = hungarian_similarity(b, shuffled)
    assert itself.similarity == pytest.approx(1, rel=1e-12)


def test_turning_latents_around_fools_the_printed_assignment_only():
    """W → −W leaves the autoencoder's function as it is, which only the sign-free assignment sees."""
    ae = trained()
    signs = torch.where(torch.arange(20) % 2 == 0, 1.0, -1.0)
    turned = permuted(ae, list(range(20)), signs)
    x = orthonormal(12, 12).float()
    torch.testing.assert_close(turned.reconstruct(x), ae.reconstruct(x), atol=1e-5, rtol=0)
    assert frobenius_similarity(ae, turned) == pytest.approx(1, rel=1e-12)
    assert hungarian_similarity(ae, turned).alignment < 0.9
    free = hungarian_similarity(ae, turned, sign_free=True)
    assert (free.similarity, free.alignment) == (pytest.approx(1, rel=1e-12), pytest.approx(1, rel=1e-12))
    assert free.cosines.tolist() == pytest.approx(signs.tolist())


def test_the_assignment_is_the_best_of_all():
    generator = torch.Generator().manual_seed(0)
    a, b = (by_hand(*torch.randn(2, 5, 4, generator=generator), torch.eye(5)) for _ in range(2))
    products = np.array([[latent_form(a, i).inner(latent_form(b, j)) for j in range(5)] for i in range(5)])
    for sign_free, scores in ((False, products), (True, np.abs(products))):
        best = max(permutations(range(5)), key=lambda order: sum(scores[i, j] for i, j in enumerate(order)))
        found = hungarian_similarity(a, b, sign_free=sign_free)
        assert found.latents.tolist() == list(range(5))
        assert found.partners.tolist() == list(best)
        pairs = zip(found.latents.tolist(), found.partners.tolist(), strict=True)
        cosines = [latent_form(a, i).cosine(latent_form(b, j)) for i, j in pairs]
        assert found.cosines.tolist() == pytest.approx(cosines)


def test_dictionaries_of_different_sizes_and_priors():
    a, b = trained("composite"), make("atomic", torch.float32)
    assert (a.n_latents, b.n_latents) == (20, 24)
    found, back = hungarian_similarity(a, b), hungarian_similarity(b, a)
    assert len(found.latents) == len(back.latents) == 20
    assert len(set(found.partners.tolist())) == 20
    assert found.symmetric == pytest.approx(back.symmetric)
    assert frobenius_similarity(a, b) == pytest.approx(frobenius_similarity(b, a))
    assert 0 < frobenius_similarity(a, b) < 1


def test_a_part_of_a_dictionary_matches_its_own_latents():
    ae = planted_shapes()
    part = permuted(ae, [5, 0, 2])
    found = hungarian_similarity(part, ae)
    assert found.partners.tolist() == [5, 0, 2]
    assert found.cosines.tolist() == pytest.approx([1, 1, 1])


def test_sim_h_as_printed_is_blind_to_where_latents_lie():
    """Two orthonormal dictionaries in orthogonal subspaces share nothing, yet the printed Sim_H calls them the same."""
    axes = torch.eye(8)
    a, b = (by_hand(axes[part], axes[part], torch.eye(4)) for part in (slice(4), slice(4, 8)))
    found = hungarian_similarity(a, b)
    assert found.similarity == 1.0
    assert found.alignment == 0.0
    assert frobenius_similarity(a, b) == 0.0


def test_empty_latents_match_without_nan():
    a, b = planted_shapes(), planted_shapes()
    found = hungarian_similarity(a, b)
    assert found.similarity == 1.0
    assert found.cosines[4] == 0.0
    nothing = by_hand(torch.zeros(2, 3), torch.zeros(2, 3), torch.eye(2))
    assert frobenius_similarity(nothing, nothing) == hungarian_similarity(nothing, nothing).similarity == 1.0


def through(centre, constant, seed=0, prior="atomic"):
    """An autoencoder with an affine lens."""
    lens = AffineLens(centre.double(), torch.tensor(constant).double(), torch.eye(5).double() / 5, torch.tensor(10))
    return BilinearAutoencoder(d_model=5, n_latents=7, prior=prior, seed=seed, lens=lens, dtype=torch.float64)


def test_forms_of_another_lens_are_brought_into_the_first_ones_coordinates():
    """The latents of both are the same functions of the token as before; inner products are those of the matrices."""
    a, b = through(torch.full((5,), 0.3), 0.4), through(torch.tensor([0.1, -0.2, 0.5, 0.0, 0.1]), 0.7, seed=1)
    first, second = comparable(a, b)
    assert first.left is a.left
    x = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    seen = second.lens(x)
    values = torch.stack([((seen @ second.form(i)) * seen).sum(1) for i in range(second.n_latents)], dim=1)
    torch.testing.assert_close(values, b.encode(x))
    shift, ratio = (a.lens.centre - b.lens.centre) / a.lens.constant, b.lens.constant / a.lens.constant
    back = torch.eye(6).double()
    back[:5, 5], back[5, 5] = shift, ratio
    torch.testing.assert_close(a.lens(x) @ back.mT, b.lens(x))
    moved = torch.stack([back.mT @ b.form(i) @ back for i in range(7)])
    own = torch.stack([a.form(i) for i in range(7)])
    cross = torch.einsum("ade,bde->ab", own, moved)
    energy = (own.flatten(1) @ own.flatten(1).mT).square().sum() + (
        moved.flatten(1) @ moved.flatten(1).mT
    ).square().sum()
    assert frobenius_similarity(a, b) == pytest.approx(float(2 * cross.square().sum() / energy))


def test_a_raw_dictionary_and_one_with_a_lens_are_compared_on_the_raw_token():
    a = through(torch.full((5,), 0.3), 0.4)
    raw = BilinearAutoencoder(d_model=5, n_latents=4, prior="atomic", dtype=torch.float64)
    left, right = (factors.detach() for factors in a.factors(a.left.dtype, raw=True))
    own = torch.stack([(left[i].outer(right[i]) + right[i].outer(left[i])) / 2 for i in range(7)])
    others = torch.stack([raw.form(i) for i in range(4)])
    cross = torch.einsum("ade,bde->ab", own, others)
    energy = (own.flatten(1) @ own.flatten(1).mT).square().sum()
    energy = energy + (others.flatten(1) @ others.flatten(1).mT).square().sum()
    expected = pytest.approx(float(2 * cross.square().sum() / energy))
    assert frobenius_similarity(a, raw) == expected
    assert frobenius_similarity(raw, a) == expected


def test_one_lens_needs_no_map():
    a, b = through(torch.full((5,), 0.3), 0.4), through(torch.full((5,), 0.3), 0.4, seed=1)
    first, second = comparable(a, b)
    assert (first.left is a.left, second.left is b.left) == (True, True)
    assert 0 < compare(a, b).agreement.frobenius < 1


def of(d=4, **provenance):
    ae = BilinearAutoencoder(d_model=d, n_latents=6, prior="atomic")
    ae.provenance = Provenance(**provenance)
    return ae


def test_different_vectors_are_refused_unless_forced():
    for similarity in (frobenius_similarity, hungarian_similarity):
        with pytest.raises(ValueError, match=r"d_model=4 and d_model=5 differ.*compare runs of one width"):
            similarity(of(4), of(5))
        with pytest.raises(ValueError, match=r"hook_point 'layer 1' and 'layer 2' differ.*--force"):
            similarity(of(hook_point="layer 1"), of(hook_point="layer 2"))
        with pytest.raises(ValueError, match="model 'a' and 'b' differ"):
            similarity(of(model="a"), of(model="b"))
        assert float(similarity(of(hook_point="layer 1"), of(hook_point="layer 2"), force=True)) == 1.0
        assert float(similarity(of(hook_point="layer 1"), of())) == 1.0  # unknown is not different


def test_directions_are_compared_as_the_forms_of_their_energy():
    topk = TopKAutoencoder(d_model=4, n_latents=8, n_active=2)
    squares = BilinearAutoencoder(d_model=4, n_latents=8, prior="atomic", same_factors=True)
    with torch.no_grad():
        squares.left.copy_(topk.decoder[torch.arange(8).flip(0)])
    assert frobenius_similarity(topk, squares) == pytest.approx(1)
    found = hungarian_similarity(topk, squares)
    assert found.partners.tolist() == list(reversed(range(8)))
    assert found.cosines.tolist() == pytest.approx([1.0] * 8)


@pytest.mark.parametrize("variety", VARIETIES)
def test_a_random_initialization_has_the_same_architecture(variety):
    ae = make(variety, torch.float32)
    null = randomly_initialized(ae, seed=9)
    assert null.prior == ae.prior
    assert null.tensors().keys() == ae.tensors().keys()
    assert all(null.tensors()[name].shape == tensor.shape for name, tensor in ae.tensors().items())
    assert not torch.equal(null.left, ae.left)


@pytest.mark.parametrize("variety", VARIETIES)
def test_without_the_mean_every_form_is_projected(variety):
    ae = make(variety, torch.float64)
    width, is_affine = ae.lens.width, isinstance(ae.lens, AffineLens)
    mean = 3 * torch.randn(width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    unit = torch.eye(width, dtype=torch.float64)[-1] if is_affine else mean / mean.norm()
    across = torch.eye(width, dtype=torch.float64) - torch.outer(unit, unit)
    found = without_mean(ae, None if is_affine else mean)
    for latent in range(ae.n_latents):
        assert torch.allclose(found.form(latent), across @ ae.form(latent).detach() @ across, atol=1e-12)
    assert frobenius_similarity(found, found) == 1.0


def test_agreement_about_the_mean_alone_is_gone_without_it():
    """Both have the latent (m·x)(v·x), which is linear if m·x is constant, and a square of their own."""
    generator = torch.Generator().manual_seed(0)
    mean, shared, *own = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
    mixing = torch.eye(2, dtype=torch.float64)
    one, other = (by_hand(torch.stack([mean, each]), torch.stack([shared, each]), mixing) for each in own[:2])
    assert frobenius_similarity(one, other) == pytest.approx(0.2)
    assert frobenius_similarity(without_mean(one, mean), without_mean(other, mean)) == pytest.approx(0)


@pytest.mark.parametrize(
    ("lens", "mean", "message"),
    [
        (None, torch.ones(3), r"shape \(3,\), but the dictionary reads 6 numbers"),
        (None, torch.zeros(6), "length 0"),
        (None, torch.full((6,), torch.nan), "length nan"),
        (None, None, "does not know their mean; give mean="),
        (AffineLens.unknown(6), torch.ones(6), "has a mean already; leave `mean` out"),
    ],
)
def test_a_mean_that_does_not_fit_is_refused(lens, mean, message):
    ae = BilinearAutoencoder(d_model=6, n_latents=4, prior="atomic", lens=lens)
    with pytest.raises(ValueError, match=message):
        without_mean(ae, mean)
