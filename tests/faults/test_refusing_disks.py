"""A disk that refuses: full at every single write, or read-only. Nothing is lost, and the same call goes on later."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import quadric
from quadric import BilinearAutoencoder
from quadric.cli import main
from quadric.data import ActivationCache, BatchSize, CachedStream
from quadric.evidence import Evidence
from quadric.evidence.labelling import replace_labels
from quadric.train.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
from tests.faults.stages import Places, evidence_and_site, harvest, result, train

Count = Callable[[], None]
CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink")


class Disk:
    """Refuses changes below a folder: from the Nth on, or that one alone."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.number = self.refused_at = 0
        self.error = errno.ENOSPC
        self.for_good = False
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None or not arguments or not str(arguments[0]).startswith(self.folder):
            return
        if event in CHANGES or (event == "open" and self._writes(arguments)):
            self.change(str(arguments[0]), removes=event in ("os.remove", "os.rmdir"))

    def _writes(self, arguments: tuple[object, ...]) -> bool:
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))

    def change(self, path: str, *, removes: bool = False) -> None:
        """Count a change, and refuse it if it is its turn; a full disk still lets files be removed."""
        if removes and self.error == errno.ENOSPC:
            return
        self.number += 1
        if self.number == self.refused_at or (self.for_good and self.number > self.refused_at > 0):
            raise OSError(self.error, os.strerror(self.error), path)

    @contextmanager
    def refusing(self, folder: Path, at: int, error: int, *, for_good: bool = True) -> Iterator[None]:
        self.folder, self.number, self.refused_at, self.error = str(folder), 0, at, error
        self.for_good = for_good
        try:
            yield
        finally:
            self.folder = None


@pytest.fixture(scope="session")
def disk() -> Disk:
    return Disk()


@pytest.fixture(autouse=True)
def _flushes_fail_too(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that fits into the cache of the system is refused only when it is flushed, which no audit event tells."""
    fsync = os.fsync

    def flush(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if disk.folder is not None and path.startswith(disk.folder):
            disk.change(path)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)


def small_autoencoder(seed: int) -> BilinearAutoencoder:
    return BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=seed)


def every_refusal(
    disk: Disk, folder: Path, begin: Callable[[], None], work: Callable[[], object], error: int, count: Count
) -> None:
    """Refuse each change of some work in turn; the work must say so in one line, and succeed when it is repeated."""
    begin()
    work()
    expected = result(folder)
    at = 0
    while True:
        at += 1
        shutil.rmtree(folder, ignore_errors=True)
        begin()
        with disk.refusing(folder, at, error):
            try:
                work()
            except OSError as problem:
                message = str(problem)
            else:
                message = ""
            reached = disk.number >= at
        if not reached:
            break
        count()
        assert "\n" not in message
        if message:  # work that only clears up, or whose result may be left out, goes on
            assert str(folder.parent) in message, message
            assert "free some space" in message or "may not be written" in message, message
        work()
        assert result(folder) == expected, f"refused at change {at}"
    assert at > 2, "no change was refused"


ERRORS = pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])


@ERRORS
def test_saving_an_autoencoder(disk: Disk, tmp_path: Path, error: int, count: Count) -> None:
    folder = tmp_path / "ae"

    def begin() -> None:
        small_autoencoder(0).save_pretrained(folder)

    def save() -> None:
        try:
            small_autoencoder(1).save_pretrained(folder)
        finally:
            disk.folder, before = None, disk.folder
            quadric.load(folder)  # one of the two, whole
            disk.folder = before

    every_refusal(disk, folder, begin, save, error, count)


@ERRORS
def test_saving_a_checkpoint(disk: Disk, tmp_path: Path, error: int, count: Count) -> None:
    folder = tmp_path / "checkpoints"

    def checkpoint(step: int) -> Checkpoint:
        return Checkpoint(step, [{}], {"first": {"left": torch.full((3,), float(step))}})

    def begin() -> None:
        for step in (2, 4):
            write_checkpoint(folder, checkpoint(step), keep=2)

    def save() -> None:
        try:
            write_checkpoint(folder, checkpoint(6), keep=2)
        finally:
            disk.folder, before = None, disk.folder
            found, damaged = newest_checkpoint(folder)
            assert found is not None
            assert found.step in (4, 6)
            assert not damaged
            disk.folder = before

    every_refusal(disk, folder, begin, save, error, count)


@ERRORS
def test_saving_evidence(disk: Disk, whole: Path, tmp_path: Path, error: int, count: Count) -> None:
    folder = tmp_path / "evidence"
    (own,) = (whole / "run/evidence").iterdir()
    evidence = Evidence.load(own)

    def begin() -> None:
        shutil.copytree(own, folder)

    def save() -> None:
        evidence.save(folder)
        replace_labels(folder, evidence.labels)

    every_refusal(disk, folder, begin, save, error, count)


@pytest.mark.parametrize("stage", [train, harvest, evidence_and_site], ids=["train", "harvest", "evidence and site"])
def test_a_stage_on_a_full_disk(
    disk: Disk,
    stage: Callable[[Places], int],
    world: Path,
    whole: Path,
    static: Path,
    tmp_path: Path,
    count: Count,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command itself: exit code 1 and one line, then the same command with room ends with the same bytes."""
    places = Places(world, whole, static, tmp_path / "out")

    def begin() -> None:
        shutil.rmtree(places.out, ignore_errors=True)
        if stage is evidence_and_site:
            left_out = shutil.ignore_patterns("evidence", "geometry", "site")
            shutil.copytree(whole / "run", places.out, ignore=left_out)

    begin()
    assert stage(places) == 0
    expected = result(places.out)
    at, step = 1, 7  # every seventh change: each stage is tried at a dozen places
    while True:
        begin()
        capsys.readouterr()
        with disk.refusing(places.out, at, errno.ENOSPC):
            code = stage(places)
            reached = disk.number >= at
        if not reached:
            break
        count()
        complaints = [line for line in capsys.readouterr().err.splitlines() if line.startswith("quadric: ")]
        assert (code, len(complaints)) in ((1, 1), (0, 0)), complaints
        assert all(str(places.out.parent) in line and "free some space" in line for line in complaints), complaints
        assert stage(places) == 0
        assert result(places.out) == expected, f"refused at change {at}"
        at += step
    assert at > 3 * step


def test_a_run_on_a_read_only_disk_can_be_read(
    disk: Disk, whole: Path, world: Path, count: Count, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = str(whole / "run")
    places = ["--model", f"{world}/tiny-llama", "--corpus", f"{world}/text.txt"]
    commands = [
        ["report", run],
        ["report", run, "--json"],
        ["compare", run, run],
        ["evaluate", run, "--tokens", "50", "--spliced-tokens", "0", *places, "--device", "cpu"],
    ]
    before = result(whole)
    for command in commands:
        count()
        with disk.refusing(whole, 1, errno.EROFS):
            assert main(command) == 0, capsys.readouterr().err
        assert capsys.readouterr().out
    with disk.refusing(whole, 1, errno.EROFS):
        quadric.load(run)
        list(CachedStream(ActivationCache(whole / "cache"), batch=BatchSize(tokens=50)))
    for command in (["train", "--resume", run, "--steps", "8"], ["site", run, "--no-map"]):
        count()
        with disk.refusing(whole, 1, errno.EROFS):
            assert main(command) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("quadric: ")
        assert "may not be written" in line
        assert "give another folder" in line
    assert result(whole) == before


def test_a_checkpoint_that_did_not_fit_costs_no_earlier_one(disk: Disk, tmp_path: Path, count: Count) -> None:
    """Training stops at the first checkpoint that does not fit, and later goes on to the same weights."""
    rows = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    settings = {"n_latents": 6, "prior": "atomic", "steps": 8, "batch_tokens": 50, "progress": False}
    expected = quadric.fit(rows, **settings, out=tmp_path / "whole").left
    folder = tmp_path / "run"
    for at in range(12, 60, 6):
        count()
        shutil.rmtree(folder, ignore_errors=True)
        with disk.refusing(folder, at, errno.ENOSPC), pytest.raises(OSError, match=r"free some space"):
            quadric.fit(rows, **settings, out=folder)
        assert torch.equal(quadric.fit(rows, **settings, out=folder, resume=True).left, expected)
