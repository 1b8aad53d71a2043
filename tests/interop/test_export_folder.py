"""An export is complete or absent, and replaces nothing but an earlier export of its kind."""

import threading
from pathlib import Path

import pytest

from quadric._io.locks import BusyError
from quadric.interop.export_folder import RECORD, check_replaceable, read_record, replaced_folder


def write(out: Path, content: str = "new", to: str = "saelens") -> None:
    with replaced_folder(out, to, "abc") as folder:
        (folder / "deep").mkdir()
        (folder / "deep/file.txt").write_text(content)


def stopped(out: Path) -> None:
    with replaced_folder(out, "saelens", "abc") as folder:
        (folder / "half.txt").write_text("half")
        raise KeyboardInterrupt


def test_a_folder_is_written_and_records_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a/b")
    record = read_record(tmp_path / "a/b")
    assert (record.to, record.files, record.weights_sha256) == ("saelens", ["deep/file.txt"], "abc")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_earlier_export_is_replaced_as_a_whole(tmp_path: Path) -> None:
    with replaced_folder(tmp_path / "out", "saelens", "abc") as folder:
        (folder / "old.txt").write_text("old")
    write(tmp_path / "out")
    assert not (tmp_path / "out/old.txt").exists()
    assert (tmp_path / "out/deep/file.txt").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    with pytest.raises(KeyboardInterrupt):
        stopped(tmp_path / "out")
    assert (tmp_path / "out/deep/file.txt").read_text() == "old"
    with pytest.raises(RuntimeError), replaced_folder(tmp_path / "absent", "saelens", "abc"):
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_export_left_is_undone(tmp_path: Path) -> None:
    left = tmp_path / ".out.export"
    (left / "unfinished").mkdir(parents=True)
    write(tmp_path / "kept", "old")
    (tmp_path / "kept").rename(left / "former")
    with pytest.raises(RuntimeError), replaced_folder(tmp_path / "out", "saelens", "abc"):
        raise RuntimeError
    assert (tmp_path / "out/deep/file.txt").read_text() == "old"
    write(tmp_path / "out")
    assert (tmp_path / "out/deep/file.txt").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_two_exports_at_once_the_second_is_refused(tmp_path: Path) -> None:
    refused: list[BusyError] = []

    def second() -> None:
        try:
            write(tmp_path / "out", "second")
        except BusyError as busy:
            refused.append(busy)

    with replaced_folder(tmp_path / "out", "saelens", "abc") as folder:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        (folder / "file.txt").write_text("first")
    assert "is being written by quadric export" in str(refused[0])
    assert (tmp_path / "out/file.txt").read_text() == "first"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/deep/file.txt").is_file()


def test_foreign_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is a file"):
        check_replaceable(tmp_path / "file", "saelens")
    (tmp_path / "other").mkdir()
    check_replaceable(tmp_path / "other", "saelens")
    (tmp_path / "other/notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and no export by Quadric"):
        check_replaceable(tmp_path / "other", "saelens")
    write(tmp_path / "out")
    with pytest.raises(FileExistsError, match="holds an export for saelens, not for delphi"):
        check_replaceable(tmp_path / "out", "delphi")
    (tmp_path / "out/deep/notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"'deep/notes\.txt' in .* is not part of the export"):
        write(tmp_path / "out")
    assert (tmp_path / "out/deep/notes.txt").read_text() == "mine"


def test_a_damaged_record_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / RECORD).write_text('{"format": "other"}')
    with pytest.raises(ValueError, match="does not describe an export by Quadric"):
        write(tmp_path / "out")
