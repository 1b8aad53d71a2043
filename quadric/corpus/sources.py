"""Sources of documents: a packaged corpus, local files or a hub dataset, recognized by name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quadric.corpus import hub, local_files, packaged
from quadric.corpus.config import CorpusConfig, CorpusError, Document

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class CorpusIdentity(NamedTuple):
    """Name and revision of a corpus, as recorded in the provenance."""

    name: str
    revision: str


def read_documents(config: CorpusConfig) -> Iterator[Document]:
    """All documents of a source in their original order, without blank ones."""
    match kind_of(config.source):
        case "packaged":
            documents = packaged.read(config.source)
        case "local":
            documents = local_files.read(config)
        case _:
            documents = hub.read(config)
    return (document for document in documents if document.text.strip())


def identify(config: CorpusConfig) -> CorpusIdentity:
    """Name and exact revision of a corpus: a hash for files, a commit for hub datasets."""
    match kind_of(config.source):
        case "packaged":
            return CorpusIdentity(config.source, packaged.CORPORA[config.source].resource.revision)
        case "local":
            # Only the last part of the path: the same files under another parent folder are the same corpus.
            return CorpusIdentity(Path(config.source).name, local_files.fingerprint(config.source))
        case _:
            return CorpusIdentity(config.source, hub.commit_of(config))


def kind_of(source: str) -> str:
    """`packaged`, `local` or `hub`; an existing path takes precedence over a hub id with the same name."""
    if source in packaged.CORPORA:
        return "packaged"
    looks_local = source.startswith((".", "/", "~")) or source.endswith(local_files.SUFFIXES)
    if looks_local or local_files.has_wildcard(source) or Path(source).exists():
        return "local"
    if HUB_ID.fullmatch(source):
        return "hub"
    raise CorpusError(
        f"unknown corpus '{source}'; give one of {', '.join(packaged.CORPORA)}, a file, folder or glob "
        f"({', '.join(local_files.SUFFIXES[:3])}), or a hub dataset as owner/name"
    )
