"""Which files of a folder are ours: a command records what it writes, beside what it writes.

A later command replaces and deletes the files of that record and no others. Files are recorded before they are
written, so that the record also names those that a killed process left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from quadric._io.files import is_plain_name, read_versioned_json, write_json
from quadric._io.records import record_from_json

FORMAT = "quadric-files"
FORMAT_VERSION = 1
RECORD = "quadric-files.json"
_REMEDY = "delete it if all files beside it were made by Quadric, else name another folder"


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """quadric-files.json."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    files: list[str]
    """Every other file that was written, relative to the folder."""
    weights: dict[str, str] = field(default_factory=dict)
    """Hash of the tensors of each dictionary that the files show, by its name there."""


def record_files(folder: Path, files: Iterable[str], weights: Mapping[str, str] | None = None) -> None:
    """Say which files of the folder are ours; those that were recorded before and are not among them no longer are."""
    write_json(folder / RECORD, asdict(FileRecord(files=sorted(files), weights=dict(weights or {}))))


def file_record(folder: Path) -> FileRecord:
    """The record in a folder; one of no files if it has none."""
    path = folder / RECORD
    if not path.is_file():
        return FileRecord(files=[])
    values = read_versioned_json(path, FORMAT, FORMAT_VERSION, "files of Quadric", _REMEDY)
    record = record_from_json(FileRecord, values, str(path))
    if outside := [name for name in record.files if not all(map(is_plain_name, PurePosixPath(name).parts or ("",)))]:
        raise ValueError(f"{path} names '{outside[0]}', which is not in its folder; {_REMEDY}")
    return record


def own_files(folder: Path) -> set[str]:
    """The files of a folder that its record names, and the record itself; none without a record."""
    files = file_record(folder).files
    return {RECORD, *files} if files else set()


def files_in(folder: Path) -> set[str]:
    """All files and links below a folder, relative to it."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
