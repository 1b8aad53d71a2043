"""`quadric.collect_evidence` as a user calls it: rows, chunks, harvested activations in memory and on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

import quadric
from tests.activations.tiny import tiny_causal, tiny_tokenizer

TEXTS = ["All happy families are alike.", "Each unhappy family is unhappy in its own way."] * 6


def dictionary(d: int = 6, seed: int = 0) -> quadric.BilinearAutoencoder:
    return quadric.BilinearAutoencoder(d_model=d, n_latents=5, prior="atomic", seed=seed)


def rows(n: int = 80, d: int = 6) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def test_the_points_of_rows_are_their_latents() -> None:
    ae, x = dictionary(), rows()
    evidence = quadric.collect_evidence(ae, x, points=200)
    z = ae.encode(torch.nn.functional.normalize(x, dim=1)).detach().numpy()
    signs = evidence.calibration.signs
    for latent in range(5):
        drawn = evidence.points.places[latent]
        kept = drawn[drawn >= 0]
        assert sorted(kept.tolist()) == list(range(80))
        np.testing.assert_allclose(
            evidence.points.values[latent][: len(kept)], signs[latent] * z[kept, latent], rtol=1e-4, atol=1e-6
        )
    assert evidence.text.vocabulary[evidence.text.token_ids[17]] == b"row 17"


def test_chunks_give_the_same_evidence_as_the_tensor() -> None:
    ae, x = dictionary(), rows()
    whole = quadric.collect_evidence(ae, x, points=20)
    parts = quadric.collect_evidence(ae, [x[:30], x[30:]], tokens=80, points=20)
    np.testing.assert_array_equal(whole.points.places, parts.points.places)
    with pytest.raises(ValueError, match=r"does not say how many rows it has; give tokens="):
        quadric.collect_evidence(ae, [x])


def test_harvested_text_is_shown_around_its_tokens_in_memory_and_from_disk(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    given = {"layer": 2, "tokenizer": tokenizer, "device": "cpu", "progress": False}
    held = quadric.harvest(tiny_causal(), TEXTS, **given)
    stored = quadric.harvest(tiny_causal(), TEXTS, **given, out=tmp_path / "cache")
    ae = dictionary(held.d_model)
    found = [
        quadric.collect_evidence(ae, held, points=30),
        quadric.collect_evidence(ae, stored, points=30, tokenizer=tokenizer),
    ]
    for evidence in found:
        text = b"".join(evidence.text.vocabulary[token] for token in evidence.text.token_ids)
        assert text == "".join(TEXTS).encode()
        assert evidence.n_tokens == len(held)
    with pytest.raises(ValueError, match=r"LlamaForCausalLM"):
        quadric.collect_evidence(ae, stored)
    with pytest.raises(ValueError, match=r"tokenizer= is for a cache folder"):
        quadric.collect_evidence(ae, held, tokenizer=tokenizer)


def test_it_is_saved_where_asked_and_reads_back(tmp_path: Path) -> None:
    evidence = quadric.collect_evidence(dictionary(), rows(), points=10, tokens=50, out=tmp_path / "evidence")
    again = quadric.Evidence.load(tmp_path / "evidence")
    assert again.n_tokens == evidence.n_tokens == 50
    np.testing.assert_array_equal(again.points.values, evidence.points.values)


def test_a_linear_dictionary_has_no_shapes_to_show() -> None:
    with pytest.raises(ValueError, match=r"has directions, not quadratic forms"):
        quadric.collect_evidence(quadric.TopKAutoencoder(d_model=6, n_latents=5, n_active=2), rows())
