"""`quadric.collect_evidence` as a user calls it: rows, chunks, harvested activations in memory and on disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import quadric
from quadric.geometry.quadrics import latent_frame
from quadric.model.objective import hoyer_density
from tests.data.tiny import tiny_causal, tiny_tokenizer
from tests.geometry.linear_dictionary import batch_topk, tokens, topk

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


@pytest.mark.parametrize("make", [topk, batch_topk])
def test_a_linear_dictionary_is_shown_by_its_own_activations(make: Callable[[], quadric.TopKAutoencoder]) -> None:
    """z ≥ 0 as it encodes them: its sign is its own and it rests at 0, even if it fires on most tokens."""
    ae, x = make(), tokens(300)
    with torch.no_grad():
        ae.encoder_bias[0] += 1.0
        ae.encoder_bias[1] -= 10.0
    evidence = quadric.collect_evidence(ae, x, points=400, progress=False)
    z = ae.encode(ae.prepare(x)).detach()
    assert float((z[:, 0] > 0).float().mean()) > 0.9
    assert set(evidence.calibration.signs.tolist()) == {1.0}
    assert not evidence.calibration.rest.any()
    for latent in range(ae.n_latents):
        places = evidence.points.places[latent]
        kept = places >= 0
        np.testing.assert_allclose(evidence.points.values[latent][kept], z[places[kept], latent], atol=1e-6)
    np.testing.assert_allclose(evidence.statistics.mean_square, z.square().mean(0), rtol=1e-4)
    fires = z.any(0)
    assert not fires[1]
    assert evidence.statistics.firing_share[1] == 0
    np.testing.assert_allclose(evidence.statistics.density[fires], hoyer_density(z)[fires], rtol=1e-4)
    np.testing.assert_array_equal(evidence.statistics.positive_share[fires], 1)
    assert not (evidence.contexts.places[:, 1] >= 0).any()  # nothing is below rest


def test_a_linear_dictionary_reads_tokens_at_the_length_that_it_was_trained_on() -> None:
    """Coordinates are about the mean of the tokens as they are read, so z is affine in them where it is active."""
    ae, x = AtOwnLength(d_model=10, n_latents=14, n_active=3).eval(), 20 * tokens(300)
    evidence = quadric.collect_evidence(ae, x, points=400, progress=False)
    z = ae.encode(x).detach().numpy()
    np.testing.assert_allclose(evidence.calibration.centre, x.mean(0), rtol=1e-4)
    frame = latent_frame(ae, 2, 8, evidence.calibration.tokens_centre())
    places = evidence.points.places[2]
    active = (places >= 0) & (evidence.points.values[2] > 0)
    assert active.sum() > 20
    np.testing.assert_allclose(evidence.points.values[2][active], z[places[active], 2], rtol=1e-4)
    shown = evidence.points.coordinates[2][active] @ frame.axis_linear.numpy() + frame.constant
    np.testing.assert_allclose(shown, evidence.points.values[2][active], rtol=1e-3)


class AtOwnLength(quadric.TopKAutoencoder):
    """A dictionary that was trained on activations at their own length."""

    def prepare(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return tokens
