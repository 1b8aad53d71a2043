"""One writer per folder; the lock ends with its process, however that ends."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quadric._io.files import NotWritableError
from quadric._io.locks import LOCK, BusyError, entries, only_writer

HOLD = """
import sys
from pathlib import Path
from quadric._io.locks import only_writer
with only_writer(Path(sys.argv[1]), "quadric train"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        expected = f"is being written by quadric train, process {other.pid} on .*; wait for it to end, or give another"
        with pytest.raises(BusyError, match=expected), only_writer(tmp_path, "quadric site"):
            pytest.fail("two writers")
        other.communicate()
    with only_writer(tmp_path, "quadric site"):
        assert (tmp_path / LOCK).is_file()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_no_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert (tmp_path / LOCK).is_file()
    assert entries(tmp_path) == []
    with only_writer(tmp_path, "quadric train"):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_thread_may_take_its_lock_again_and_another_thread_may_not(tmp_path: Path) -> None:
    refused: list[BusyError] = []

    def take() -> None:
        try:
            with only_writer(tmp_path, "second"):
                pass
        except BusyError as busy:
            refused.append(busy)

    with only_writer(tmp_path, "first"):
        with only_writer(tmp_path / ".", "inner"):
            pass
        assert (tmp_path / LOCK).is_file()  # still held
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_failed_work_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), only_writer(tmp_path / "a/b", "work"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with only_writer(tmp_path / "a/b", "work"):
        (tmp_path / "a/b/file").touch()
    assert entries(tmp_path / "a/b") == [tmp_path / "a/b/file"]


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with only_writer(tmp_path / "mine", "work"):
        pass
    assert (tmp_path / "mine").is_dir()


def test_a_link_in_place_of_the_lock_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / LOCK).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"), only_writer(tmp_path / "folder", "work"):
        pytest.fail("locked")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    expected = f"{tmp_path}.* may not be written .*give another folder"
    with pytest.raises(NotWritableError, match=expected), only_writer(tmp_path, "work"):
        pytest.fail("locked")


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="has no locks"), only_writer(tmp_path, "work"):
        (tmp_path / "file").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
