"""A folder that is complete or absent, and that replaces nothing but an earlier export of its kind.

Files go to a hidden folder beside the final one, which takes its name at the end. An export records the files that it
wrote; a folder that holds any other file is never replaced.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from quadric._io.files import name_disk_errors, read_versioned_json, sync_to_disk, write_json
from quadric._io.locks import only_writer
from quadric._io.own_files import files_in
from quadric._io.records import record_from_json
from quadric.version import __version__

FORMAT = "quadric-export"
FORMAT_VERSION = 1
RECORD = "quadric-export.json"


@dataclass(frozen=True, kw_only=True)
class ExportRecord:
    """quadric-export.json: what an export is, so that it can be replaced safely and traced to its weights."""

    format: str
    format_version: int
    package_version: str
    to: str
    """The tool that it is for."""
    weights_sha256: str
    """Hash of the tensors of the dictionary."""
    files: list[str]
    """Every other file, relative to the folder."""


def check_replaceable(out: Path, to: str) -> None:
    """Refuse anything but a new folder, an empty one, or an unchanged set of files from an earlier export of `to`."""
    if not out.exists():
        return
    if not out.is_dir():
        raise FileExistsError(f"'{out}' is a file; name a folder for the export")
    files = files_in(out)
    if not files:
        return
    if RECORD not in files:
        raise FileExistsError(f"'{out}' is not empty and no export by Quadric; name another folder")
    record = read_record(out)
    if record.to != to:
        raise FileExistsError(f"'{out}' holds an export for {record.to}, not for {to}; name another folder")
    if foreign := sorted(files - {RECORD, *record.files}):
        raise FileExistsError(f"'{foreign[0]}' in '{out}' is not part of the export; move it, or name another folder")


def read_record(out: Path) -> ExportRecord:
    """Read quadric-export.json of a folder."""
    path = out / RECORD
    values = read_versioned_json(path, FORMAT, FORMAT_VERSION, "an export by Quadric", "name another folder")
    return record_from_json(ExportRecord, values, str(path))


@contextmanager
def replaced_folder(out: Path, to: str, weights_sha256: str) -> Iterator[Path]:
    """A temporary folder to write into, which becomes `out` if nothing is raised; else `out` stays as it was."""
    out = Path(os.path.realpath(out))
    check_replaceable(out, to)
    work = out.with_name(f".{out.name}.export")
    with only_writer(work, "quadric export"), name_disk_errors(out):
        fresh, former = work / "unfinished", work / "former"
        _restore_or_remove(former, out)  # what a killed export left
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            yield fresh
            record = ExportRecord(
                format=FORMAT,
                format_version=FORMAT_VERSION,
                package_version=__version__,
                to=to,
                weights_sha256=weights_sha256,
                files=sorted(files_in(fresh)),
            )
            write_json(fresh / RECORD, asdict(record))
            if out.exists():
                out.rename(former)
            fresh.rename(out)
            sync_to_disk(out.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            _restore_or_remove(former, out)
    with suppress(OSError):  # there already: a killed export had left it
        work.rmdir()


def _restore_or_remove(former: Path, out: Path) -> None:
    if former.exists() and not out.exists():
        former.rename(out)
    shutil.rmtree(former, ignore_errors=True)
