"""Sources of documents: a packaged corpus, local files or a hub dataset, recognized by name, or several joined by +.

Hub datasets are streamed instead of downloaded completely.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from quadric.data.corpus import local_files
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document
from quadric.data.corpus.local_files import text_and_topic
from quadric.data.resources import WIKI_LEADS, WIKITEXT_2, Resource, read_member

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
            return CORPORA[config.source].read()
        case "local":
            return local_files.read(config)
        case _:
            return _read_hub(config)


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
            return CorpusIdentity(config.source, CORPORA[config.source].resource.revision)
        case "local":
            # Only the last part of the path: the same files under another parent folder are the same corpus.
            return CorpusIdentity(Path(config.source).name, local_files.fingerprint(config.source))
        case _:
            return CorpusIdentity(config.source, _commit_of(config))


def kind_of(source: str) -> str:
    """`packaged`, `local`, `hub` or `joined`; an existing path takes precedence over anything else with its name."""
    if kind := _packaged_or_local(source):
        return kind
    if HUB_ID.fullmatch(source):
        return "hub"
    raise CorpusError(
        f"unknown corpus '{source}'; give one of {', '.join(CORPORA)}, a file, folder or glob "
        f"({', '.join(local_files.SUFFIXES[:3])}), several of these joined by {JOIN}, or a hub dataset as owner/name"
    )


def _packaged_or_local(source: str) -> str | None:
    if source in CORPORA:
        return "packaged"
    if source and Path(source).exists():
        return "local"
    parts = source.split(JOIN)
    if len(parts) > 1 and all(map(_packaged_or_local, parts)):
        return "joined"
    looks_local = source.startswith((".", "/", "~")) or source.endswith(local_files.SUFFIXES)
    return "local" if looks_local or local_files.has_wildcard(source) else None


ARTICLE_TITLE = re.compile(r"^ = ([^=\n]+) = $", re.MULTILINE)

# Undoes WikiText's tokenization: ' @-@ ' inside numbers and compounds, spaces around punctuation.
WIKITEXT_RULES = [
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r" ([,.;:!?%)\]]|'s\b|n't\b)"), r"\1"),
    (re.compile(r"([(\[$£]) "), r"\1"),
    (re.compile(r'" ([^"\n]+) "'), r'"\1"'),
    (re.compile(r"^ +| +$", re.MULTILINE), ""),
    (re.compile(r"\n{3,}"), "\n\n"),
]


class PackagedCorpus(NamedTuple):
    resource: Resource
    read: Callable[[], Iterator[Document]]


def _wiki_leads() -> Iterator[Document]:
    """First paragraphs of Wikipedia's vital articles, each with its topic in Wikipedia's list."""
    articles = json.loads(read_member(WIKI_LEADS, WIKI_LEADS.members[0]))
    for index, article in enumerate(articles.values()):
        yield Document(index, article["extract"], article["topic"])


def _wikitext_2() -> Iterator[Document]:
    """Complete Wikipedia articles: train, then valid, then test."""
    index = 0
    for member in WIKITEXT_2.members:
        text = gzip.decompress(read_member(WIKITEXT_2, member)).decode()
        starts = [match.start() for match in ARTICLE_TITLE.finditer(text)]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            yield Document(index, detokenized(text[start:end]))
            index += 1


def detokenized(text: str) -> str:
    """Convert WikiText's tokenized format to ordinary prose."""
    for pattern, replacement in WIKITEXT_RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


CORPORA = {
    WIKI_LEADS.name: PackagedCorpus(WIKI_LEADS, _wiki_leads),
    WIKITEXT_2.name: PackagedCorpus(WIKITEXT_2, _wikitext_2),
}


def _commit_of(config: CorpusConfig) -> str:
    """Resolve a revision to its commit, so that a run can be repeated after the dataset changes."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().dataset_info(config.source, revision=config.revision)
    except Exception as failure:
        raise _hub_error(config, failure) from failure
    return str(info.sha)


def _read_hub(config: CorpusConfig) -> Iterator[Document]:
    """Documents of a hub dataset, in the order of the dataset."""
    try:
        records = iter(_open(config))
    except Exception as failure:
        raise _hub_error(config, failure) from failure
    index = 0
    while (record := _next(records, config)) is not None:
        text, topic = text_and_topic(record, config, f"{config.source}, record {index}")
        yield Document(index, text, topic)
        index += 1


def _open(config: CorpusConfig) -> Any:
    from datasets import load_dataset

    return load_dataset(
        config.source, config.subset, split=config.hub_split, streaming=True, revision=_commit_of(config)
    )


def _next(records: Iterator[dict[str, Any]], config: CorpusConfig) -> dict[str, Any] | None:
    try:
        return next(records, None)
    except Exception as failure:
        raise _hub_error(config, failure) from failure


def _hub_error(config: CorpusConfig, failure: Exception) -> CorpusError:
    """Reduce a multi-line error of the hub client to a one-line `CorpusError`."""
    if isinstance(failure, CorpusError):
        return failure
    if isinstance(failure, ModuleNotFoundError):
        return CorpusError(f"hub datasets need {failure.name}; install it with: pip install 'quadric[lm]'")
    reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return CorpusError(
        f"cannot read hub dataset '{config.source}' ({reason}); check its name, its subset and the network, "
        "or download it and pass the folder"
    )
