"""Sentences with a known place on a line or a circle."""

import pytest

from quadric.studies.probing.sentences import SENTENCE_SETS, SERIES


@pytest.mark.parametrize("name", SENTENCE_SETS)
def test_every_word_follows_every_beginning_once(name: str) -> None:
    made = SENTENCE_SETS[name]()
    series = SERIES[name.removesuffix("_known")]
    assert made.name == name
    assert len(set(made.texts or ())) == len(made) == len(series.words) * len(series.beginnings)
    assert len(set(made.labels)) == len(series.words)
    assert made.period == series.period


def test_a_word_is_in_one_group_and_a_known_word_in_all() -> None:
    new, known = SENTENCE_SETS["weekdays"](), SENTENCE_SETS["weekdays_known"]()
    assert len(set(zip(new.groups or (), new.labels, strict=True))) == 7
    assert len(set(zip(known.groups or (), known.labels, strict=True))) == len(known)


def test_labels_go_around_in_the_order_of_the_words() -> None:
    hours = SENTENCE_SETS["hours"]()
    by_word = {text.split(" at ")[-1]: label for text, label in zip(hours.texts or (), hours.labels, strict=True)}
    assert (by_word["12 am"], by_word["1 am"], by_word["12 pm"], by_word["11 pm"]) == (0, 1, 12, 23)
    days = SENTENCE_SETS["days_of_month"]()
    assert any(
        text.endswith(" 22nd") and label == 22 for text, label in zip(days.texts or (), days.labels, strict=True)
    )
    years = SENTENCE_SETS["years"]()
    assert any(
        text.endswith(" 1903") and label == 1903 for text, label in zip(years.texts or (), years.labels, strict=True)
    )
