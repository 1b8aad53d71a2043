"""Counterparts of latents in another dictionary: right for known ones, and chance is stated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import frobenius_similarity, hungarian_similarity
from quadric.model import Provenance
from quadric.model.lens import affine_lens, token_moments
from quadric.viewer.comparisons import SMALLEST_OVERLAP, comparable_pairs, compare_dictionaries, site_comparisons
from quadric.viewer.encoding import unpack
from quadric.viewer.export import build_site
from quadric.viewer.schema import NOTHING
from tests.viewer.small_evidence import N_LATENTS, site_input


def dictionary(n_latents: int = 24, *, seed: int = 0, d_model: int = 16, **provenance: str) -> BilinearAutoencoder:
    return BilinearAutoencoder(
        d_model=d_model, n_latents=n_latents, prior="atomic", seed=seed, provenance=Provenance(**provenance)
    )


def shuffled(ae: BilinearAutoencoder, order: list[int]) -> BilinearAutoencoder:
    """The same latents in another order, every second one negated: the same dictionary."""
    signs = torch.tensor([(-1.0) ** number for number in range(len(order))])[:, None]
    tensors = {name: tensor.detach().clone() for name, tensor in ae.tensors().items()}
    tensors = {name: tensor[order] for name, tensor in tensors.items()}
    tensors["left"] = tensors["left"] * signs
    return BilinearAutoencoder.from_tensors(replace(ae.settings, n_latents=len(order)), ae.d_model, tensors)


def test_the_same_latents_are_found_whatever_their_order_and_sign() -> None:
    ae, order = dictionary(), np.random.default_rng(0).permutation(24).tolist()
    found = compare_dictionaries("a", ae, "b", shuffled(ae, order))
    assert [order[partner] for partner in found.partners] == list(range(24))
    np.testing.assert_allclose(found.overlaps, 1, atol=1e-5)
    assert found.entry.alignment == pytest.approx(1, abs=1e-5)


def test_it_is_the_assignment_of_compare() -> None:
    a, b = dictionary(seed=1), dictionary(seed=2)
    found, known = compare_dictionaries("a", a, "b", b), hungarian_similarity(a, b, sign_free=True)
    np.testing.assert_array_equal(found.partners, known.partners)
    np.testing.assert_allclose(found.overlaps, known.cosines.abs(), atol=1e-6)
    assert found.entry.frobenius == pytest.approx(frobenius_similarity(a, b))


def test_unrelated_dictionaries_have_no_counterparts_and_chance_is_about_what_they_have() -> None:
    found = compare_dictionaries("a", dictionary(seed=1, d_model=64), "b", dictionary(seed=2, d_model=64))
    assert found.entry.smallest_overlap == SMALLEST_OVERLAP > found.entry.chance > 0
    assert (found.overlaps < found.entry.smallest_overlap).all()
    assert np.median(found.overlaps) < found.entry.chance


def test_where_chance_reaches_high_the_bar_is_higher() -> None:
    """With two coordinates there are only three forms, and every latent has a twin by chance."""
    found = compare_dictionaries("a", dictionary(seed=1, d_model=2), "b", dictionary(seed=2, d_model=2))
    assert found.entry.smallest_overlap == found.entry.chance > 0.9


def test_latents_beyond_those_of_a_smaller_dictionary_have_no_partner() -> None:
    ae = dictionary()
    smaller = shuffled(ae, [5, 3, 8])
    found = compare_dictionaries("a", ae, "b", smaller)
    assert (found.partners != NOTHING).sum() == 3
    assert found.partners[[5, 3, 8]].tolist() == [0, 1, 2]
    assert (found.overlaps[found.partners == NOTHING] == 0).all()
    back = compare_dictionaries("b", smaller, "a", ae)
    assert back.partners.tolist() == [5, 3, 8]


def test_only_dictionaries_of_the_same_vectors_are_compared() -> None:
    layer = {"model": "m", "hook_point": "resid_pre.3"}
    given = [
        ("a", dictionary(**layer)),
        ("b", dictionary(seed=1, **layer)),
        ("other layer", dictionary(model="m", hook_point="resid_pre.4")),
        ("other model", dictionary(model="n", hook_point="resid_pre.3")),
        ("wider", dictionary(d_model=20, **layer)),
    ]
    steps: list[tuple[str, int, int, str]] = []
    found = site_comparisons(given, lambda *step: steps.append(step))
    assert [(each.entry.first, each.entry.second) for each in found] == [("a", "b")]
    assert comparable_pairs(given) == [(0, 1)]
    assert steps == [("comparisons", 1, 1, "")]


def test_directions_find_the_forms_that_are_functions_of_them() -> None:
    """A slab along d and a slope along d are both the counterpart of d; a random direction has none."""
    generator = torch.Generator().manual_seed(0)
    lens = affine_lens(token_moments(1 + torch.randn(200, 16, generator=generator)))
    topk = TopKAutoencoder(d_model=16, n_latents=6, n_active=2, seed=4)
    bilinear = BilinearAutoencoder(d_model=16, n_latents=5, prior="atomic", lens=lens, seed=3)
    d = torch.nn.functional.pad(topk.decoder.detach(), (0, 1))
    with torch.no_grad():
        bilinear.left[1], bilinear.right[1] = d[4], -2 * d[4]
        bilinear.left[3], bilinear.right[3] = d[0], torch.eye(17)[-1]
    found = compare_dictionaries("a", topk, "b", bilinear)
    assert (found.partners[4], found.partners[0]) == (1, 3)
    np.testing.assert_allclose(found.overlaps[[4, 0]], 1, atol=1e-5)
    assert (np.delete(found.overlaps, [0, 4]) < found.entry.smallest_overlap).all()
    back = compare_dictionaries("b", bilinear, "a", topk)
    assert (back.partners[1], back.partners[3]) == (4, 0)
    assert back.entry.alignment == pytest.approx(found.entry.alignment)
    assert 0 < back.entry.chance < 0.9
    assert "forms of d·v alone" in back.entry.method


def test_two_linear_dictionaries_are_matched_by_the_cosines_of_their_directions() -> None:
    one, other = (TopKAutoencoder(d_model=16, n_latents=6, n_active=2, seed=seed) for seed in (4, 5))
    with torch.no_grad():
        other.decoder[:2] = torch.stack([3 * one.decoder[5], -one.decoder[2]])
    found = compare_dictionaries("a", one, "b", other)
    assert (found.partners[5], found.overlaps[5]) == (0, pytest.approx(1))
    assert found.overlaps[2] < 0.9  # the opposite of a direction is not its counterpart


@pytest.fixture
def static(tmp_path: Path) -> Path:
    (tmp_path / "static").mkdir()
    (tmp_path / "static/index.html").write_text("<!doctype html>")
    return tmp_path / "static"


def test_a_site_of_several_dictionaries_has_a_file_per_pair(tmp_path: Path, static: Path) -> None:
    inputs = [site_input("a"), site_input("b", seed=5)]
    manifest = build_site(inputs, tmp_path / "site", with_map=False, clustered=0, static=static)
    (entry,) = manifest.comparisons
    assert (entry.first, entry.second) == ("a", "b")
    stored = unpack((tmp_path / "site/data/comparisons/00000.st").read_bytes())
    assert sorted(stored["partners"].tolist()) == list(range(N_LATENTS))
    off = build_site(inputs, tmp_path / "off", with_map=False, clustered=0, compared=False, static=static)
    assert off.comparisons == ()
    assert not (tmp_path / "off/data/comparisons").exists()
