"""Documents from .txt, .jsonl and .parquet files, read one at a time; .txt.gz and .jsonl.gz too."""

import glob
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from quadric._io.files import sha256_of_file
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document

HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
SUFFIXES = (".txt", ".jsonl", ".parquet", ".txt.gz", ".jsonl.gz")


def has_wildcard(source: str) -> bool:
    return any(mark in source for mark in "*?[")


def files_of(source: str) -> list[Path]:
    """Files named by a path, a folder or a glob, sorted by name so that their order is fixed."""
    path = Path(source).expanduser()
    if path.is_file():
        found = [path]
        if not _is_readable(path):
            raise CorpusError(f"{path} is not a corpus file; use {', '.join(SUFFIXES)}")
        return found
    if path.is_dir():
        found = [file for file in path.rglob("*") if _is_readable(file)]
    elif has_wildcard(source):
        found = [Path(name) for name in glob.glob(str(path), recursive=True) if _is_readable(Path(name))]
    else:
        raise CorpusError(f"no file or folder '{source}'; check the path, or use a glob such as 'texts/*.txt'")
    if not found:
        raise CorpusError(f"no {', '.join(SUFFIXES)} file in '{source}'; add files of one of these types")
    return sorted(found)


def fingerprint(source: str) -> str:
    """Hash of the names and contents of all files, independent of the folder that holds them."""
    digest = hashlib.sha256()
    for path in files_of(source):
        digest.update(f"{path.name} {sha256_of_file(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def read(config: CorpusConfig) -> Iterator[Document]:
    """Documents of all files of `config.source`, numbered consecutively."""
    number = count()
    for path in files_of(config.source):
        for text, topic in _read_file(path, config):
            yield Document(next(number), text, topic)


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
