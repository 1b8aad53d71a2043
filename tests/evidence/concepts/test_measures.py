"""Shares of a concept's variance and average precision, against plain definitions and planted concepts."""

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric.evidence.concepts.finding import ends_with
from quadric.evidence.concepts.measures import (
    average_precision,
    best_captures,
    best_random_subspace,
    captured_shares,
    concept_variance,
    detect,
    most_captured,
)
from quadric.geometry import spectrum
from quadric.model import BilinearAutoencoder, TopKAutoencoder

D = 12
W = 8
"""Width of the tokens in which a concept is detected."""


def vectors(seed: int = 0) -> torch.Tensor:
    return torch.randn(4, 9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_differences_between_prompts_do_not_count_as_concept_variance() -> None:
    plain = vectors()
    shifted = plain + 100 * torch.randn(4, 1, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(concept_variance(plain), concept_variance(shifted))
    assert concept_variance(plain).trace().item() == pytest.approx(1)


def test_words_with_identical_vectors_are_rejected() -> None:
    with pytest.raises(ValueError, match="same vector"):
        concept_variance(torch.ones(2, 3, D, dtype=torch.float64))


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_shares_match_explicit_projection_of_every_word(prior: str) -> None:
    options = {"mixing_density": 0.1} if prior == "composite" else {}
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior=prior, seed=3, **options)
    words = vectors()
    centred = (words - words.mean(1, keepdim=True)).flatten(0, 1)
    shares, ranks = captured_shares(autoencoder, [concept_variance(words)])
    for latent in range(10):
        values, directions = spectrum(autoencoder, latent)
        rank = min(8, round((values.abs().sum() ** 2 / values.square().sum()).item()))
        inside = centred @ directions[:, :rank]
        assert ranks[latent] == rank
        assert shares[0, latent].item() == pytest.approx((inside.square().sum() / centred.square().sum()).item())


def test_a_latent_that_spans_the_concept_is_found_and_beats_chance() -> None:
    """Words on a circle, and one latent that projects onto its plane."""
    generator = torch.Generator().manual_seed(5)
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior="quadratic", n_hidden=20, seed=3)
    plane = torch.linalg.qr(torch.randn(D, 2, generator=generator)).Q
    with torch.no_grad():
        autoencoder.left[:2] = autoencoder.right[:2] = plane.mT
        autoencoder.mixing.weight[7] = 0
        autoencoder.mixing.weight[7, :2] = 1
    angles = torch.arange(7) * 2 * torch.pi / 7
    circle = (torch.stack([angles.cos(), angles.sin()], dim=1) @ plane.mT).double()
    noisy = circle + 0.01 * torch.randn(3, 7, D, dtype=torch.float64, generator=generator)
    shares, ranks = captured_shares(autoencoder, [concept_variance(noisy)])
    assert ranks[7] == 2
    assert shares[0, 7].item() > 0.99
    assert shares[0, 7].item() == pytest.approx(most_captured(concept_variance(noisy), 2), abs=0.01)
    assert best_random_subspace(concept_variance(noisy), 2, 10, seed=0) < 0.9


def test_captured_shares_stay_within_their_bounds() -> None:
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior="composite", mixing_density=0.1, seed=3)
    variances = [concept_variance(vectors(seed)) for seed in range(3)]
    for each in best_captures(autoencoder, variances):
        assert 0 < each.median <= each.captured <= each.most + 1e-9
        assert 0 < each.random_subspace <= each.most + 1e-9
        assert each.untrained is not None
        assert each.untrained > 0


def test_the_leading_principal_component_is_the_best_direction() -> None:
    variance = concept_variance(vectors())
    leading = torch.linalg.eigh(variance).eigenvectors[:, -1]
    directions = torch.stack([torch.eye(D, dtype=torch.float64)[0], -3 * leading])
    linear = quadric.linear_dictionary(encoder=directions.float(), decoder=directions.float())
    (found,) = best_captures(linear, [variance])
    assert (found.latent, found.rank, found.untrained) == (1, 1, None)
    assert found.captured == pytest.approx(found.most)


def test_random_subspaces_of_an_isotropic_concept_capture_rank_over_d() -> None:
    isotropic = torch.eye(D, dtype=torch.float64) / D
    assert best_random_subspace(isotropic, 3, 500, seed=0) == pytest.approx(3 / D)


def naive_average_precision(positives: list[float], negatives: list[float]) -> float:
    """The area under the precision-recall steps: thresholds from high to low, equal scores together."""
    labelled = [(score, True) for score in positives] + [(score, False) for score in negatives]
    area, recall_before = 0.0, 0.0
    for threshold in sorted({score for score, _ in labelled}, reverse=True):
        kept = [positive for score, positive in labelled if score >= threshold]
        recall = sum(kept) / len(positives)
        area += (recall - recall_before) * sum(kept) / len(kept)
        recall_before = recall
    return area


def test_average_precision_of_a_ranking_by_hand() -> None:
    positives = torch.tensor([[0.9], [0.6], [0.2]])  # ranks 1, 3 and 5: precisions 1, 2/3 and 3/5
    negatives = torch.tensor([[0.8], [0.3], [0.1]])
    assert average_precision(positives, negatives).item() == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)


def test_average_precision_matches_the_naive_definition_with_and_without_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    smooth = torch.randn(60, 4, generator=generator)
    tied = torch.randint(3, (60, 4), generator=generator).float()
    for scores in (smooth, tied):
        positives, negatives = scores[:20], scores[20:]
        expected = [
            naive_average_precision(*(part[:, i].tolist() for part in (positives, negatives))) for i in range(4)
        ]
        assert average_precision(positives, negatives).tolist() == pytest.approx(expected)


def test_a_latent_that_never_fires_is_at_chance_level() -> None:
    assert average_precision(torch.zeros(5, 1), torch.zeros(15, 1)).item() == pytest.approx(0.25)


def dictionary(n_latents: int = 200) -> TopKAutoencoder:
    """Latent i reads coordinate i of the token for i < W, and random directions beyond."""
    autoencoder = TopKAutoencoder(d_model=W, n_latents=n_latents, n_active=n_latents, seed=0).eval()
    with torch.no_grad():
        autoencoder.encoder[:W] = torch.eye(W)
        autoencoder.encoder_bias[:] = 10.0  # so that no latent is cut off at zero
    return autoencoder


def tokens(n: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(n, W, generator=torch.Generator().manual_seed(seed)), dim=1)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_latent_and_the_side_that_separate_the_concept_are_found(sign: int) -> None:
    concept = tokens(48, 1).clone()
    concept[:, 3] = 5.0 * sign
    concept = torch.nn.functional.normalize(concept, dim=1).reshape(6, 8, W)
    found = detect(dictionary(W), concept, tokens(400, 2))
    assert found is not None
    assert (found.latent, found.sign) == (3, sign)
    assert found.precision > 0.95
    assert found.chance == pytest.approx(24 / 224)


def test_the_best_of_many_latents_is_not_rewarded_for_being_the_best_by_chance() -> None:
    """On tokens of the same distribution as the corpus, the chosen half flatters and the other half does not."""
    precisions, chosen = [], []
    for seed in range(20):
        concept, corpus = tokens(40, 100 + seed).reshape(5, 8, W), tokens(400, 200 + seed)
        found = detect(dictionary(), concept, corpus)
        assert found is not None
        precisions.append(found.precision)
        scores = [dictionary().encode(each) for each in (concept.flatten(0, 1), corpus)]
        chosen.append(
            max(average_precision(scores[0], scores[1]).max(), average_precision(-scores[0], -scores[1]).max())
        )
    assert abs(sum(precisions) / 20 - 1 / 11) < 0.04
    assert sum(chosen) / 20 > 0.14


def test_both_halves_have_every_word_and_every_prompt() -> None:
    from quadric.evidence.concepts.measures import _checkerboard

    places = torch.stack(torch.meshgrid(torch.arange(5), torch.arange(7), indexing="ij"), dim=-1).float()
    for half in _checkerboard(places):
        assert half[:, 0].unique().tolist() == [*range(5)]
        assert half[:, 1].unique().tolist() == [*range(7)]


def test_too_few_tokens_are_not_measured() -> None:
    assert detect(dictionary(W), tokens(6, 0).reshape(2, 3, W), tokens(1, 1)) is None


def test_the_end_of_a_word_is_marked_and_its_parts_are_not() -> None:
    read = torch.tensor([[5, 1, 2, 1, 9], [1, 1, 2, 7, 7]])
    assert ends_with(read, [[1, 2], [7]]).int().tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 1, 1]]
    assert not ends_with(read, [[1] * 9]).any()


def test_a_dictionary_gets_tokens_at_the_length_that_it_reads() -> None:
    """The concept differs from the corpus only in the length of its tokens, which a threshold on z sees."""
    lengths = torch.linspace(1, 2, 48).reshape(6, 8, 1)
    concept, corpus = 10 * lengths * tokens(48, 1).reshape(6, 8, W).abs(), tokens(400, 2).abs()
    weights = {"encoder": torch.eye(W), "decoder": torch.eye(W)}
    own = detect(quadric.linear_dictionary(**weights, threshold=1.0, input="own"), concept, corpus)
    unit = detect(quadric.linear_dictionary(**weights, threshold=1.0, input="unit"), concept, corpus)
    assert own is not None
    assert unit is not None
    assert own.precision > 0.8 > 2 * unit.precision
