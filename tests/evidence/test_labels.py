"""Labels: estimates of token energy from the draw, the tokens that each sign prefers, and short names from them."""

import numpy as np
import pytest
import torch

from quadric.evidence import EvidenceSettings
from quadric.evidence.collecting import gather
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.evidence.labels import (
    LONGEST_TOKEN,
    MIXED,
    PRIOR_TOKENS,
    SignTokens,
    TokenPreference,
    distinct_labels,
    energies,
    label,
    preferences,
    readable,
    sign_tokens,
    spellings,
)
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder

NOTHING: TokenPreference = preferences(np.empty(0, dtype=np.int32), np.empty(0), np.ones(1))


def test_energies_of_the_draw_estimate_the_sum_over_all_tokens_without_bias() -> None:
    generator = np.random.default_rng(0)
    values = (generator.standard_normal(400) ** 3).astype(np.float32) / 10
    chosen = np.arange(400) % 3 == 0
    exact = np.square(values[chosen].astype(float)).sum()
    estimates = []
    for _ in range(3000):
        keys = generator.exponential(size=400) / (np.abs(values) + 0.05) ** 4
        drawn = np.argsort(keys)[:40]
        energy = energies(values[drawn], keys[drawn], 0.05, complete=False)
        estimates.append(energy[chosen[drawn]].sum())
    standard_error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - exact) < 4 * standard_error
    assert standard_error < 0.02 * exact


def test_a_draw_that_holds_everything_is_taken_as_it_is() -> None:
    values = np.array([1, -2], dtype=np.float32)
    np.testing.assert_allclose(energies(values, np.array([3.0, 4.0]), 1e-4, complete=True), [1, 4])


def test_preference_is_share_times_log_lift_with_the_stated_prior() -> None:
    frequencies = np.array([0.7, 0.2, 0.1])
    tokens = np.array([0, 1, 1, 2], dtype=np.int32)
    energy = np.array([1.0, 2.0, 2.0, 3.0])
    found = preferences(tokens, energy, frequencies)
    effective = 8**2 / (1 + 4 + 4 + 9)
    shares = (effective * np.array([1, 4, 3]) / 8 + PRIOR_TOKENS * frequencies) / (effective + PRIOR_TOKENS)
    assert set(found.tokens) == {1, 2}
    for token, share, lift, contribution in zip(*found, strict=True):
        assert share == pytest.approx(shares[token])
        assert lift == pytest.approx(shares[token] / frequencies[token])
        assert contribution == pytest.approx(share * np.log(lift))
    assert (np.diff(found.contributions) <= 0).all()


def test_a_rare_token_seen_once_does_not_beat_a_common_pattern() -> None:
    frequencies = np.full(1000, 1e-3)
    tokens = np.array([5] + [6] * 30 + list(range(100, 130)), dtype=np.int32)
    found = preferences(tokens, np.ones(len(tokens)), frequencies)
    assert found.tokens[0] == 6


def test_nothing_fires_nothing_is_preferred() -> None:
    assert len(preferences(np.empty(0, dtype=np.int32), np.empty(0), np.ones(3)).tokens) == 0


def test_spellings_that_differ_by_case_or_space_are_one() -> None:
    groups = spellings([b" his", b"her", b"His", b" Her", b"\xe2\x80"], np.array([0.4, 0.3, 0.1, 0.1, 0.1]))
    assert groups.texts == ["his", "her", "‹e2 80›"]
    np.testing.assert_array_equal(groups.group, [0, 1, 0, 1, 2])
    np.testing.assert_allclose(groups.frequencies, [0.5, 0.4, 0.1])


def test_a_very_long_token_is_shortened_in_labels_but_not_taken_for_another() -> None:
    start = "x" * LONGEST_TOKEN
    groups = spellings([start.encode(), (start + "y").encode(), (start + "z").encode()], np.full(3, 1 / 3))
    assert groups.texts[0] == start
    assert groups.texts[1] == groups.texts[2] == start[:-1] + "…"
    assert groups.group.tolist() == [0, 1, 2]


def test_white_space_and_parts_of_characters_can_be_read() -> None:
    assert readable(b"\n\n") == "⏎⏎"
    assert readable(b"  ") == "␣␣"
    assert readable("\u00a0\u2003".encode()) == "⍽‹U+2003›"
    assert readable("é ".encode()) == "é"
    assert readable(b"\xc3") == "‹c3›"


def test_a_label_joins_both_signs_or_marks_a_negative_one() -> None:
    ups, downs = SignTokens(["his", "her"], 0.6), SignTokens(["they"], 0.4)
    assert label(ups, downs) == "his · her ↔ they"
    assert label(ups, SignTokens(["they"], 0.05)) == "his · her"
    assert label(SignTokens([], 0.0), SignTokens(["they"], 1.0)) == "− they"
    assert label(SignTokens([], 0.0), SignTokens([], 0.0)) == ""


def test_a_sign_names_up_to_three_tokens_and_none_far_weaker_than_the_best() -> None:
    groups = spellings([bytes([97 + i]) for i in range(20)], np.full(20, 0.05))
    many = preferences(np.repeat(np.arange(5), 20).astype(np.int32), np.ones(100), groups.frequencies)
    assert sign_tokens(many, NOTHING, groups, 1.0).texts == ["a", "b", "c"]
    tokens = np.array([0] * 90 + [1] * 10, dtype=np.int32)
    assert sign_tokens(preferences(tokens, np.ones(100), groups.frequencies), NOTHING, groups, 1.0).texts == ["a"]


def test_a_sign_without_a_favourite_is_mixed() -> None:
    frequencies = np.full(200, 1 / 200)
    groups = spellings([str(i).encode() for i in range(200)], frequencies)
    broad = preferences(np.arange(100).astype(np.int32), np.ones(100), frequencies)
    assert sign_tokens(broad, NOTHING, groups, 1.0).texts == ["mixed"]


def test_a_sign_with_many_favourites_names_the_best_and_says_that_there_are_more() -> None:
    frequencies = np.full(2000, 1 / 2000)
    groups = spellings([str(i).encode() for i in range(2000)], frequencies)
    broad = preferences(np.tile(np.arange(40), 5).astype(np.int32), np.ones(200), frequencies)
    assert sign_tokens(broad, NOTHING, groups, 1.0).texts == ["0", "1", "2", "…"]


def test_a_token_that_all_follow_is_named_if_it_tells_more() -> None:
    groups = spellings([bytes([97 + i]) for i in range(20)], np.full(20, 0.05))
    spread = preferences(np.repeat(np.arange(10), 10).astype(np.int32), np.ones(100), groups.frequencies)
    same = preferences(np.full(100, 7), np.ones(100), groups.frequencies)
    assert sign_tokens(spread, same, groups, 1.0).texts == ["after h: a", "b", "c"]
    assert sign_tokens(same, same, groups, 1.0).texts == ["h"]
    assert sign_tokens(NOTHING, same, groups, 1.0).texts == ["after h"]
    assert sign_tokens(same, spread, groups, 1.0).texts == ["h"]


def test_a_latent_of_what_follows_a_token_is_labelled_so() -> None:
    """Through the whole pass: one latent fires on whatever follows token a, and on nothing else."""
    text = RandomText(60, n_letters=12)
    stream = RandomStream(text, 100)
    previous = text.tokens[stream.sequences, np.maximum(stream.positions - 1, 0)]
    follows = (previous == 0) & (stream.positions > 0)
    stream.vectors[:] = 0.01
    stream.vectors[follows, 0] = 1.0
    stream.vectors[~follows, 1] = 1.0
    ae = small_autoencoder(1, prior="atomic")
    with torch.no_grad():
        ae.left.zero_()
        ae.right.zero_()
        ae.left[0, 0] = ae.right[0, 0] = 1.0
    collector = Collector(ae, EvidenceSettings(n_points=200))
    gather([collector], stream, text, n_tokens=10**9)
    evidence = evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), [])
    assert evidence.labels.texts[0].startswith("after a")


def test_a_label_that_another_latent_has_gets_its_next_best_word() -> None:
    first = SignTokens(["his"], 1.0, ("her", "him"))
    silent = SignTokens([], 0.0)
    signs = [(first, silent)] * 3 + [(SignTokens(["they"], 1.0, ("them",)), silent), (silent, silent), (silent, silent)]
    assert distinct_labels(signs) == ["his", "his · her", "his · her · him", "they", "", ""]
    assert distinct_labels(signs, np.array([2, 1, 0, 3, 4, 5]))[:3] == ["his · her · him", "his · her", "his"]
    assert distinct_labels([(first._replace(further=()), silent)] * 2) == ["his", "his"]


def test_mixed_signs_with_the_same_label_name_what_they_prefer_most() -> None:
    mixed, other = SignTokens([MIXED], 1.0, ("the", "a")), SignTokens([MIXED], 1.0, ("of",))
    silent = SignTokens([], 0.0)
    assert distinct_labels([(mixed, silent), (other, silent)]) == ["mixed", "of · …"]
