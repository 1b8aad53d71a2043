"""Sources of documents: a packaged corpus, local files or a hub dataset, recognized by name, or several joined by +."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from quadric.data.corpus import hub, local_files, packaged
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
JOIN = "+"


class CorpusIdentity(NamedTuple):
    """Name and revision of a corpus, as recorded in the provenance."""

    name: str
    revision: str


def read_documents(config: CorpusConfig) -> Iterator[Document]:
    """All documents of a source in their original order, without blank ones.

    The documents of joined sources follow each other and are numbered on.

    Args:
        config: The source; its split, order and blocks play no part here.

    Returns:
        An iterator of documents.

    Example:
        >>> from quadric.data.corpus import CorpusConfig
        >>> from quadric.data.corpus.sources import read_documents
        >>> documents = list(read_documents(CorpusConfig(source="texts.jsonl")))
        >>> len(documents)
        200
        >>> documents[0].text
        '0. Monday comes after Sunday, and then comes Tuesday.'
    """
    return (document for document in _all_documents(config) if document.text.strip())


def _all_documents(config: CorpusConfig) -> Iterator[Document]:
    match kind_of(config.source):
        case "joined":
            return _joined_documents(config)
        case "packaged":
            return packaged.read(config.source)
        case "local":
            return local_files.read(config)
        case _:
            return hub.read(config)


def _joined_documents(config: CorpusConfig) -> Iterator[Document]:
    first = 0
    for part in config.source.split(JOIN):
        last = -1
        for document in _all_documents(replace(config, source=part)):
            last = document.index
            yield replace(document, index=first + last)
        first += last + 1


def identify(config: CorpusConfig) -> CorpusIdentity:
    """Name and exact revision of a corpus: a hash for files, a commit for hub datasets.

    Args:
        config: The corpus.

    Returns:
        What the provenance of activations and dictionaries records. Of files, only the last part of the path: the same
        files in another folder are the same corpus.

    Example:
        >>> from quadric.data.corpus import CorpusConfig, identify
        >>> identify(CorpusConfig(source="texts.jsonl"))
        CorpusIdentity(name='texts.jsonl', revision='sha256:...')
    """
    match kind_of(config.source):
        case "joined":
            parts = [identify(replace(config, source=part)) for part in config.source.split(JOIN)]
            return CorpusIdentity(JOIN.join(each.name for each in parts), JOIN.join(each.revision for each in parts))
        case "packaged":
            return CorpusIdentity(config.source, packaged.CORPORA[config.source].resource.revision)
        case "local":
            # Only the last part of the path: the same files under another parent folder are the same corpus.
            return CorpusIdentity(Path(config.source).name, local_files.fingerprint(config.source))
        case _:
            return CorpusIdentity(config.source, hub.commit_of(config))


def kind_of(source: str) -> str:
    """`packaged`, `local`, `hub` or `joined`; an existing path takes precedence over anything else with its name."""
    if kind := _packaged_or_local(source):
        return kind
    if HUB_ID.fullmatch(source):
        return "hub"
    raise CorpusError(
        f"unknown corpus '{source}'; give one of {', '.join(packaged.CORPORA)}, a file, folder or glob "
        f"({', '.join(local_files.SUFFIXES[:3])}), several of these joined by {JOIN}, or a hub dataset as owner/name"
    )


def _packaged_or_local(source: str) -> str | None:
    if source in packaged.CORPORA:
        return "packaged"
    if source and Path(source).exists():
        return "local"
    parts = source.split(JOIN)
    if len(parts) > 1 and all(map(_packaged_or_local, parts)):
        return "joined"
    looks_local = source.startswith((".", "/", "~")) or source.endswith(local_files.SUFFIXES)
    return "local" if looks_local or local_files.has_wildcard(source) else None
