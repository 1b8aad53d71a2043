"""Sources of documents: a packaged corpus, local files or a hub dataset, recognized by name, or several joined by +.

Local files are .txt, .jsonl and .parquet, the first two also compressed with gzip. They and hub datasets are read one
document at a time.
"""

import glob
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from quadric._io.files import sha256_of_file
from quadric.data.resources import WIKI_LEADS, WIKITEXT_2, Resource, read_member
from quadric.data.settings import CorpusConfig, CorpusError

HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
SUFFIXES = (".txt", ".jsonl", ".parquet", ".txt.gz", ".jsonl.gz")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
JOIN = "+"


@dataclass(frozen=True, slots=True)
class Document:
    """One text. Its index is its position in the source, independent of the order of reading."""

    index: int
    text: str
    topic: str | None = None


class CorpusIdentity(NamedTuple):
    """Name and revision of a corpus, as recorded in the provenance."""

    name: str
    revision: str


def read_documents(config: CorpusConfig) -> Iterator[Document]:
    """All documents of a source in their original order, without blank ones.

    The documents of joined sources follow each other and are numbered on.
    """
    return (document for document in _all_documents(config) if document.text.strip())


def _all_documents(config: CorpusConfig) -> Iterator[Document]:
    match kind_of(config.source):
        case "joined":
            return _joined_documents(config)
        case "packaged":
            return CORPORA[config.source].read()
        case "local":
            return _read_local(config)
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
            return CorpusIdentity(Path(config.source).name, _fingerprint(config.source))
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
        f"({', '.join(SUFFIXES[:3])}), several of these joined by {JOIN}, or a hub dataset as owner/name"
    )


def _packaged_or_local(source: str) -> str | None:
    if source in CORPORA:
        return "packaged"
    if source and Path(source).exists():
        return "local"
    parts = source.split(JOIN)
    if len(parts) > 1 and all(map(_packaged_or_local, parts)):
        return "joined"
    looks_local = source.startswith((".", "/", "~")) or source.endswith(SUFFIXES)
    return "local" if looks_local or has_wildcard(source) else None


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


def has_wildcard(source: str) -> bool:
    return any(mark in source for mark in "*?[")


def files_of(source: str) -> list[Path]:
    """Files named by a path, a folder or a glob, sorted by name so that their order is fixed."""
    path = Path(source).expanduser()
    if path.is_file():
        if not _is_readable(path):
            raise CorpusError(f"{path} is not a corpus file; use {', '.join(SUFFIXES)}")
        return [path]
    if not path.is_dir() and not has_wildcard(source):
        raise CorpusError(f"no file or folder '{source}'; check the path, or use a glob such as 'texts/*.txt'")
    paths = path.rglob("*") if path.is_dir() else map(Path, glob.glob(str(path), recursive=True))
    if not (files := sorted(filter(_is_readable, paths))):
        raise CorpusError(f"no {', '.join(SUFFIXES)} file in '{source}'; add files of one of these types")
    return files


def _fingerprint(source: str) -> str:
    """Hash of the names and contents of all files, independent of the folder that holds them."""
    digest = hashlib.sha256()
    for path in files_of(source):
        digest.update(f"{path.name} {sha256_of_file(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _read_local(config: CorpusConfig) -> Iterator[Document]:
    """Documents of all files of `config.source`, numbered consecutively."""
    texts = chain.from_iterable(_read_file(path, config) for path in files_of(config.source))
    return (Document(number, text, topic) for number, (text, topic) in enumerate(texts))


def _is_readable(path: Path) -> bool:
    return path.is_file() and path.name.endswith(SUFFIXES)


def _read_file(path: Path, config: CorpusConfig) -> Iterator[tuple[str, str | None]]:
    name = path.name.removesuffix(".gz")
    try:
        if name.endswith(".txt"):
            yield from ((text, None) for text in _read_text(path, config.document_separator))
        else:
            fields = _read_parquet(path, config) if name.endswith(".parquet") else _read_jsonl(path)
            for place, record in enumerate(fields, start=1):
                yield text_and_topic(record, config, f"{path}, record {place}")
    except UnicodeDecodeError as problem:
        raise CorpusError(f"{path} is not UTF-8 text ({problem.reason}); convert it, e.g. with iconv") from problem
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise CorpusError(f"{path} is truncated or not gzip ({problem}); copy or download it again") from problem


def text_and_topic(record: dict[str, Any], config: CorpusConfig, place: str) -> tuple[str, str | None]:
    """Text and topic of one record; if the text field is missing, the error lists the fields that exist."""
    text = record.get(config.text_field)
    if not isinstance(text, str):
        found = ", ".join(record) or "none"
        raise CorpusError(f"{place} has no text in field '{config.text_field}'; choose one of its fields: {found}")
    if HALF_OF_A_PAIR.search(text):
        raise CorpusError(f"{place} holds half of a surrogate pair, which is no text; write it again as UTF-8")
    topic = record.get(config.topic_field) if config.topic_field else None
    return text, None if topic is None else str(topic)


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[str]]:
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield file


def _read_text(path: Path, separator: str | None) -> list[str]:
    with _opened(path) as lines:
        text = "".join(lines)
    return text.split(separator) if separator else [text]


def _read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as problem:
                why = getattr(problem, "msg", type(problem).__name__)
                raise CorpusError(f"{path}, line {number} is not JSON ({why}); use one object per line") from problem
            if not isinstance(record, dict):
                raise CorpusError(f"{path}, line {number} is not a JSON object; use one object per line")
            yield record


def _read_parquet(path: Path, config: CorpusConfig) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as missing:
        raise CorpusError("reading parquet needs pyarrow; install it with: pip install 'quadric[lm]'") from missing
    try:
        file = pyarrow.parquet.ParquetFile(path)
        wanted = {config.text_field, config.topic_field}
        # If the text column is missing, read all columns so that the error can list them.
        columns = [name for name in file.schema_arrow.names if name in wanted] or None
        for batch in file.iter_batches(batch_size=1024, columns=columns):
            yield from batch.to_pylist()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError) as problem:
        reason = str(problem).splitlines()[0]
        raise CorpusError(f"{path} is not a readable parquet file ({reason}); write or copy it again") from problem


def _commit_of(config: CorpusConfig) -> str:
    """Resolve a revision to its commit, so that a run can be repeated after the dataset changes."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().dataset_info(config.source, revision=config.revision)
    except Exception as failure:
        raise _hub_error(config, failure) from failure
    return str(info.sha)


def _read_hub(config: CorpusConfig) -> Iterator[Document]:
    """Documents of a hub dataset, in its own order; it is streamed instead of downloaded completely."""
    try:
        from datasets import load_dataset

        revision = _commit_of(config)
        records = load_dataset(config.source, config.subset, split=config.hub_split, streaming=True, revision=revision)
        for index, record in enumerate(records):
            yield Document(index, *text_and_topic(record, config, f"{config.source}, record {index}"))
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
