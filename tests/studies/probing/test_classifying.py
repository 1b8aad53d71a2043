"""Probes of binary labels: the right features are chosen, on training rows only."""

import numpy as np
import pytest

from quadric.studies.probing.classifying import effect_sizes, probe_scores, word_scores
from quadric.studies.probing.labelled import LabelledSet, Split, class_split


def labelled(labels: np.ndarray, texts: list[str] | None = None) -> LabelledSet:
    given = texts or [f"text {n}" for n in range(len(labels))]
    return LabelledSet(name="set", kind="binary", texts=given, labels=labels.astype(float).tolist())


def test_effect_size_is_the_difference_of_means_in_units_of_the_spread_within_classes() -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(30, 4)) * [1, 10, 0, 1], generator.integers(0, 2, 30).astype(float)
    features[:, 2] = 0.1
    found = effect_sizes(features, labels)
    for column in (0, 1, 3):
        one, zero = features[labels == 1, column], features[labels == 0, column]
        within = (one.var(ddof=1) * (len(one) - 1) + zero.var(ddof=1) * (len(zero) - 1)) / 28
        assert found[column] == pytest.approx(abs(one.mean() - zero.mean()) / np.sqrt(within))
    assert found[2] == 0


def test_a_probe_finds_the_feature_that_carries_the_label() -> None:
    generator = np.random.default_rng(1)
    labels = np.arange(120) % 2
    features = generator.normal(size=(120, 50))
    features[:, 17] += 4 * labels
    given = labelled(labels)
    scores = {each.n_features: each for each in probe_scores(features, given, class_split(given, 0))}
    assert list(scores) == [1, 2, 5, 20, None]
    assert scores[1].auc > 0.98
    assert scores[1].accuracy > 0.9


def test_features_that_know_nothing_score_chance() -> None:
    """Choosing among 2,000 features by all rows would give an AUC of 0.8 or more."""
    generator = np.random.default_rng(2)
    features = generator.normal(size=(120, 2000))
    given = labelled(np.arange(120) % 2)
    found = [probe_scores(features, given, class_split(given, seed), (5,))[0].auc for seed in range(8)]
    assert 0.4 < float(np.mean(found)) < 0.6
    chosen_by_all = features[:, effect_sizes(features, np.asarray(given.labels)).argsort()[-5:]]
    leaking = [probe_scores(chosen_by_all, given, class_split(given, seed), (5,))[0].auc for seed in range(8)]
    assert float(np.mean(leaking)) > 0.7


def test_the_test_rows_alone_decide_the_score() -> None:
    generator = np.random.default_rng(3)
    labels = np.arange(80) % 2
    features = generator.normal(size=(80, 3)) + 5 * labels[:, None]
    split = Split(np.arange(60), np.arange(60, 80))
    turned = labels.copy()
    turned[60:] = 1 - turned[60:]
    assert probe_scores(features, labelled(labels), split, (1,))[0].auc == 1
    assert probe_scores(features, labelled(turned), split, (1,))[0].auc == 0


def test_more_features_than_there_are_is_no_probe() -> None:
    given = labelled(np.arange(60) % 2)
    features = np.random.default_rng(4).normal(size=(60, 3))
    assert [each.n_features for each in probe_scores(features, given, class_split(given, 0))] == [1, 2, None]


def test_words_alone_solve_a_set_whose_negatives_are_of_another_kind() -> None:
    labels = np.arange(60) % 2
    code = [f"x{n} = {n};" if label else f"a plain sentence about {n}" for n, label in enumerate(labels)]
    assert word_scores(labelled(labels, code), class_split(labelled(labels, code), 0)).auc > 0.99
    random = [f"word{n}" for n in range(60)]
    assert word_scores(labelled(labels, random), class_split(labelled(labels, random), 0)).auc < 0.85
