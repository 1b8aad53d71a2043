"""The catalogue agrees with the wheel: files, copies and labels; sentences made here have places and groups."""

import hashlib
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from quadric.data.resources import wheel_path
from quadric.studies.probing import catalogue
from quadric.studies.probing.catalogue import (
    DEFAULT_SETS,
    ENTRIES,
    FOLDER,
    IDENTICAL,
    SAE_PROBES,
    SENTENCE_SETS,
    SERIES,
    SOURCES,
    described_sets,
    load_sets,
    set_names,
)

TABLE = tomllib.loads(Path(catalogue.__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def files() -> dict[str, bytes]:
    """The compressed files of the wheel by name."""
    with zipfile.ZipFile(wheel_path(SAE_PROBES)) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{FOLDER}/")]
        return {name.removeprefix(f"{FOLDER}/").removesuffix(".csv.zst"): archive.read(name) for name in names}


def test_every_file_of_the_wheel_is_a_set_or_left_out_for_a_reason() -> None:
    reasons = [IDENTICAL, TABLE["several_classes"], TABLE["meaningless"], [entry.file for entry in ENTRIES]]
    named = [name for reason in reasons for name in reason]
    assert sorted(named) == sorted(files())


def test_copies_are_byte_for_byte_and_there_are_no_others() -> None:
    found = {name: hashlib.sha256(content).hexdigest() for name, content in files().items()}
    assert all(found[copy] == found[kept] for copy, kept in IDENTICAL.items())
    repeated = {digest for digest, count in Counter(found.values()).items() if count > 1}
    assert {found[copy] for copy in IDENTICAL} == repeated
    assert sum(digest in repeated for digest in found.values()) == 2 * len(IDENTICAL)


def test_names_are_unique_and_sources_known() -> None:
    described = described_sets()
    names = [each["name"] for each in described]
    assert len(set(names)) == len(names) == len(set_names())
    assert {entry.source for entry in ENTRIES} == set(SOURCES)
    assert all(each["about"] and each["source"] for each in described)
    assert sum(each["default"] for each in described) == len(DEFAULT_SETS)


def test_the_default_has_enough_sets_of_every_kind() -> None:
    kinds = Counter(each["kind"] for each in described_sets() if each["default"])
    assert kinds["binary"] >= 20
    assert kinds["continuous"] >= 4
    assert kinds["cyclic"] >= 4


@pytest.mark.slow
def test_sets_whose_targets_are_words_have_both_classes() -> None:
    named = [entry.name for entry in ENTRIES if entry.positive != "1" and entry.source != "phrases"]
    for labelled in load_sets([*named, "high-school"]):
        assert sum(labelled.labels) / len(labelled) == pytest.approx(0.5, abs=0.05), labelled.name


def test_labels_mean_what_the_catalogue_says() -> None:
    people, places = load_sets(["hist_fig_ismale", "world_longitude"])
    by_text = dict(zip(people.texts or (), people.labels, strict=True))
    assert by_text["John Henry Newman"] == 1
    assert by_text["Margaret of Clisson"] == 0
    assert places.period == 360
    assert min(places.labels) < -150
    assert max(places.labels) > 150


def test_topics_come_from_documents_that_no_default_dictionary_was_trained_on() -> None:
    from quadric.data.corpus import CorpusConfig, ordered_documents

    (people,) = load_sets(["wiki_people"])
    trained = {document.text for document in ordered_documents(CorpusConfig(seed=None))}
    assert not trained & set(people.texts or ())
    assert sum(people.labels) > 60


def test_an_unknown_set_is_named_with_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"no set 'weekday' \(did you mean weekdays"):
        load_sets(["weekday"])


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
