"""Explanations against the naive form: shares, quantiles, ranking, and where latents fire."""

from pathlib import Path

import numpy as np
import pytest
import torch

import quadric
from quadric import BilinearAutoencoder
from quadric.evidence import Evidence
from quadric.explanations import Explainer
from quadric.explanations.explaining import RANKING, RANKING_WITHOUT_EVIDENCE, energy_shares, language_model_of
from quadric.geometry.quadrics import latent_frame
from quadric.model.objective import unit_tokens
from tests.data.tiny import D_MODEL, tiny_causal, tiny_tokenizer
from tests.explanations.small_run import N_LATENTS, NAME, make_linear_explainer

TEXT = "Document 3: word 3 and more."


def test_shares_are_those_of_the_rebuilt_form() -> None:
    ae = BilinearAutoencoder(d_model=6, n_latents=9, prior="composite", mixing_density=0.3, dtype=torch.float64)
    x = unit_tokens(torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    z = ae.encode(x).detach()
    found = energy_shares(z, ae.kernel().double())
    rebuilt = ae.reconstruct(x)
    for token in range(4):
        energy = rebuilt[token].square().sum()
        for latent in range(9):
            part = (z[token, latent] * ae.form(latent).double() * rebuilt[token]).sum()
            assert float(found[token, latent]) == pytest.approx(float(part / energy), abs=1e-6)
    assert found.sum(1).tolist() == pytest.approx([1] * 4)


def test_a_token_that_is_rebuilt_as_nothing_has_no_shares() -> None:
    assert energy_shares(torch.zeros(1, 3), torch.eye(3)).tolist() == [[0.0, 0.0, 0.0]]


def test_strength_is_share_times_surprise_and_sorts_the_latents(explainer: Explainer) -> None:
    (found,) = explainer.explain([TEXT], top=N_LATENTS)
    evidence = explainer.evidence
    assert evidence is not None
    (reading,) = explainer.reader.read([TEXT])
    values = explainer.values(reading.vectors)
    for place, token in enumerate(found.tokens):
        strengths = [each.strength for each in token.latents]
        assert strengths == sorted(strengths, reverse=True)
        assert sorted(each.latent for each in token.latents) == list(range(N_LATENTS))
        assert sum(each.share for each in token.latents) == pytest.approx(1, abs=1e-4)
        for each in token.latents:
            assert each.value == pytest.approx(values[place, each.latent])
            assert each.quantile is not None
            tail = min(each.quantile, 1 - each.quantile)
            assert each.strength == pytest.approx(max(each.share, 0) * np.log2(0.5 / tail), abs=1e-5)


def test_quantiles_agree_with_the_tokens_that_were_scored(explainer: Explainer) -> None:
    """Roughly half of the tokens of the evidence's own text are above each median."""
    texts = [f"Document {number}: word {number} and more." for number in range(6)]
    found = explainer.explain(texts, top=N_LATENTS)
    quantiles = [each.quantile for one in found for token in one.tokens for each in token.latents]
    assert 0.3 < np.mean([q > 0.5 for q in quantiles if q is not None]) < 0.7


def test_latents_fire_where_the_evidence_says_so(explainer: Explainer) -> None:
    (found,) = explainer.explain([TEXT])
    evidence = explainer.evidence
    assert evidence is not None
    (reading,) = explainer.reader.read([TEXT])
    limit = evidence.settings.firing_rms * np.sqrt(evidence.statistics.mean_square)
    fires = np.abs(explainer.values(reading.vectors) - evidence.calibration.rest) > limit
    assert fires.any()
    for latent in found.latents:
        places = [firing.token for firing in latent.firings]
        assert places == np.flatnonzero(fires[:, latent.latent]).tolist()
        assert latent.strength == pytest.approx(sum(firing.strength for firing in latent.firings))
        assert latent.label == evidence.labels.of(latent.latent)
    strengths = [latent.strength for latent in found.latents]
    assert strengths == sorted(strengths, reverse=True)
    assert {latent.latent for latent in found.latents} == set(np.flatnonzero(fires.any(0)).tolist())


def test_values_below_rest_are_named_by_that_side(explainer: Explainer) -> None:
    evidence = explainer.evidence
    assert evidence is not None
    for latent in range(N_LATENTS):
        rest = float(evidence.calibration.rest[latent])
        assert explainer.side_label(latent, rest - 1).startswith("− ")
        assert not explainer.side_label(latent, rest + 1).startswith("− ") or not evidence.labels.positive[latent]


def test_without_evidence_the_share_decides_and_that_is_said(explainer: Explainer) -> None:
    bare = Explainer(explainer.autoencoder, explainer.reader.model)
    (found,) = bare.explain([TEXT], top=4)
    assert found.ranking == RANKING_WITHOUT_EVIDENCE != RANKING
    assert "no evidence" in found.notes[0]
    for token in found.tokens:
        assert [each.strength for each in token.latents] == [each.share for each in token.latents]
        assert {each.quantile for each in token.latents} == {None}
        assert {each.label for each in token.latents} == {""}


def test_several_texts_are_each_explained_as_if_alone(explainer: Explainer) -> None:
    texts = [TEXT, "z", "quite another text <|endoftext|> of more words than the first"]
    for found, text in zip(explainer.explain(texts), texts, strict=True):
        (lone,) = explainer.explain([text])
        assert [token.text for token in found.tokens] == [token.text for token in lone.tokens]
        for token, other in zip(found.tokens, lone.tokens, strict=True):
            assert token.dropped == other.dropped
            first, second = ([each.strength for each in one.latents] for one in (token, other))
            assert first == pytest.approx(second, abs=1e-3)


def test_the_front_door_takes_a_run_s_model_and_one_in_memory(small_run: Path) -> None:
    ae = quadric.load(small_run)
    evidence = Evidence.load(small_run / "evidence" / NAME)
    model = str(small_run.parent / "tiny")
    found = quadric.explain(ae, TEXT, evidence, model=model, top=2)
    assert found.tokens[0].text == "D"
    assert "Explanation('D': " in repr(found)
    in_memory = {"model": tiny_causal(), "tokenizer": tiny_tokenizer(), "check_model": False}
    again = quadric.explain(ae, TEXT, evidence, **in_memory)
    assert again.tokens[0].latents[0].latent == found.tokens[0].latents[0].latent


def test_a_model_in_training_is_read_without_dropout_and_stays_in_training(small_run: Path) -> None:
    ae = quadric.load(small_run)
    model, settings = tiny_causal("gpt2"), {"tokenizer": tiny_tokenizer(), "check_model": False}
    quiet = quadric.explain(ae, TEXT, model=model, **settings)
    model.train()
    assert quadric.explain(ae, TEXT, model=model, **settings).as_json() == quiet.as_json()
    assert model.training


def test_mistakes_are_said(small_run: Path, explainer: Explainer) -> None:
    with pytest.raises(ValueError, match="top=0 is not positive"):
        explainer.explain([TEXT], top=0)
    other = BilinearAutoencoder(
        d_model=D_MODEL, n_latents=N_LATENTS, prior="atomic", provenance=explainer.autoencoder.provenance
    )
    with pytest.raises(ValueError, match="about other weights"):
        Explainer(other, explainer.reader.model, explainer.evidence)
    with pytest.raises(ValueError, match="may be another"):
        quadric.explain(explainer.autoencoder, TEXT, model=tiny_causal(), tokenizer=tiny_tokenizer())
    with pytest.raises(ValueError, match="tokenizer= is for a model in memory"):
        language_model_of(other, "smollm2", tiny_tokenizer(), "cpu")
    with pytest.raises(ValueError, match="does not record its language model"):
        language_model_of(BilinearAutoencoder(d_model=4, n_latents=4, prior="atomic"), None, None, "cpu")


@pytest.fixture(scope="module")
def linear_explainer(small_run: Path) -> Explainer:
    return make_linear_explainer(small_run)


def test_a_linear_dictionary_explains_by_its_share_of_the_reconstruction(linear_explainer: Explainer) -> None:
    topk = linear_explainer.autoencoder
    assert isinstance(topk, quadric.TopKAutoencoder)
    (reading,) = linear_explainer.reader.read([TEXT])
    z = topk.encode(topk.prepare(reading.vectors)).detach()
    np.testing.assert_allclose(linear_explainer.values(reading.vectors), z, atol=1e-6)
    rebuilt = z @ topk.decoder.detach()  # without the decoder's bias
    (found,) = linear_explainer.explain([TEXT], top=topk.n_latents)
    for row, place in enumerate(reading.kept):
        for each in found.tokens[place].latents:
            part = z[row, each.latent] * (topk.decoder.detach()[each.latent] @ rebuilt[row])
            assert each.share == pytest.approx(float(part / rebuilt[row].square().sum()), abs=1e-4)
            assert each.value >= 0


def test_tokens_of_a_text_lie_where_the_points_of_a_direction_do(linear_explainer: Explainer) -> None:
    """Where a latent is active, its value is that of the plane through the token's place."""
    topk, evidence = linear_explainer.autoencoder, linear_explainer.evidence
    assert evidence is not None
    (reading,) = linear_explainer.reader.read([TEXT])
    values = linear_explainer.values(reading.vectors)
    latent = int(values.max(0).argmax())
    frame = latent_frame(topk, latent, 6, evidence.calibration.tokens_centre())
    shown = linear_explainer.coordinates(reading, latent, 6)
    plane = shown.axes @ frame.axis_linear.numpy() + frame.constant
    active = values[:, latent] > 0
    np.testing.assert_allclose(plane[active], values[active, latent], atol=1e-5)
