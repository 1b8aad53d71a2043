"""A file is on disk whole under its name, or not there at all."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quadric._io import files
from quadric._io.files import (
    DiskFullError,
    NotWritableError,
    name_disk_errors,
    read_json,
    read_regular,
    read_versioned_json,
    remove_leftovers,
    write_atomically,
    write_json,
)


def test_a_file_is_flushed_before_it_takes_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    flushed: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        flushed.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"content")
    assert flushed == [(f".file.{os.getpid()}", False), (tmp_path.name, True)]
    assert path.read_bytes() == b"content"


def test_windows_has_no_folders_to_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    def fsync(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(files, "WINDOWS", True)
    write_atomically(tmp_path / "file", b"content")
    assert flushed == [f".file.{os.getpid()}"]


def test_a_failure_half_way_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise RuntimeError("interrupted")

    write_atomically(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(RuntimeError, match="interrupted"):
        write_atomically(tmp_path / "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_a_write_that_the_kernel_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from pathlib import Path; from quadric._io.files import write_atomically;"
        "write_atomically(Path(sys.argv[1]) / 'large', b'x' * 100_000)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "File too large" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: opened(Path("/dev/full"), mode))
    with pytest.raises(DiskFullError, match=r"^no room for file in .*; .* free some space and run the same command"):
        write_atomically(tmp_path / "file", b"content")


def test_only_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    for name in (".shard-0.st.123", ".shard-1.st.9", "shard-0.st", ".shard-0.st", ".other.st.123", ".shard-0.st.123x"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path, r"shard-\d+\.st")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"shard-0.st", ".shard-0.st", ".other.st.123", ".shard-0.st.123x"}


def test_json_that_others_could_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"value": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"file.json is not valid JSON .*; make it again"),
        ("[]", r"does not describe a thing \(no format: 'thing'\)"),
        ('{"format": "other"}', r"does not describe a thing"),
        ('{"format": "thing"}', r"format version None"),
        ('{"format": "thing", "format_version": 3}', r"format version 3, newer than the 2 .*; upgrade"),
    ],
)
def test_json_of_another_format_or_a_newer_version_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_versioned_json(path, "thing", 2, "a thing", "make it again")


@pytest.mark.parametrize("version", [1, 2])
def test_json_of_this_version_is_read_and_of_an_older_one_where_nothing_says_otherwise(
    version: int, tmp_path: Path
) -> None:
    path, values = tmp_path / "file.json", {"format": "thing", "format_version": version}
    write_json(path, values)
    assert read_versioned_json(path, "thing", 2, "a thing", "make it again") == values
    if version == 2:
        assert read_versioned_json(path, "thing", 2, "a thing", "make it again", since="0.2") == values
    else:
        with pytest.raises(ValueError, match=r"version 1, written by a Quadric before 0\.2; make it again"):
            read_versioned_json(path, "thing", 2, "a thing", "make it again", since="0.2")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"{", b"[" * 100_000, b'{"a":' * 100_000, b'"\\ud800"', b'{"\\udfff": 1}', b"9" * 5000],
    ids=["empty", "no utf-8", "cut", "deep", "deep objects", "half a pair", "half a pair as key", "a long number"],
)
def test_whatever_is_wrong_with_json_is_one_line_with_file_and_remedy(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"file.json is .*; make it again$") as caught:
        read_json(path, "make it again")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_not_a_regular_file_is_refused_instead_of_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for read in (read_regular, lambda path: read_json(path, "make it again")):
        with pytest.raises(ValueError, match="is not a regular file; replace it by a copy") as caught:
            read(path)
        assert "\n" not in str(caught.value)


STORED_ELSEWHERE = {
    "viewer/writer.py": "files of the package",
    "viewer/notebook.py": "files of the package",
    "viewer/serve.py": "files of the package",
    "studies/probing/catalogue.py": "files of the package",
    "evidence/concepts/words.py": "files of the package",
    "studies/probing/vectors.py": "a cache that its study checks",
    "studies/steering/of_run.py": "prompts that the user names, checked to be a file",
    "cli/explain.py": "texts that the user names, checked to be files",
    "model/storage.py": "weights, checked to be a file",
    "_io/files.py": "the function itself",
}


def test_stored_files_are_read_by_one_function() -> None:
    """A reader of its own would have to think of pipes, devices and sizes again."""
    package = Path(files.__file__).parents[1]
    direct = re.compile(r"\.read_bytes\(|\.read_text\(|\bjson\.load\(")
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if direct.search(path.read_text("utf-8"))
    }
    assert found <= STORED_ELSEWHERE.keys()


def test_a_file_too_large_for_json_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: a terabyte that takes no room
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes, more than the 1,073,741,824 that are read"):
        read_json(path, "make it again")


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (errno.ENOSPC, DiskFullError, "no room for file in .*free some space"),
        (errno.EDQUOT, DiskFullError, "no room for file in .*free some space"),
        (errno.EROFS, NotWritableError, "file may not be written .*give another folder"),
        (errno.EACCES, NotWritableError, "file may not be written .*give another folder"),
    ],
)
def test_what_the_disk_refuses_is_named_with_a_remedy(
    number: int, error: type[OSError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(error, match=message):
        write_atomically(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []
    collected = shutil.Error([("from", "to", str(OSError(number, os.strerror(number))))])  # as copytree does
    with pytest.raises(error, match=message), name_disk_errors(tmp_path / "file"):
        raise collected
