"""Training a run: one writer at a time, nothing left of a run that could not begin."""

import os
import threading
from pathlib import Path

import pytest
import torch

import quadric
from quadric._io.locks import LOCK, BusyError, only_writer
from quadric.cli import main
from quadric.data.settings import ActivationConfig, CorpusConfig
from quadric.model.processes import Processes
from quadric.run import running
from quadric.run.folder import autoencoder_folder
from quadric.run.recipes import DEMO, run_of
from quadric.run.running import create_run, extend_run, is_finished, new_run
from quadric.run.viewing import view
from quadric.train.learner import Learner
from tests.tiny_runs import make_tiny_world, train_command

ROWS = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))


def fit(folder: Path, steps: int = 4, **more: object) -> quadric.Dictionary:
    settings = {"n_latents": 6, "prior": "atomic", "steps": steps, "batch_tokens": 50, "progress": False}
    return quadric.fit(ROWS, **settings, out=folder, **more)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


def in_another_thread(work: object) -> Exception | None:
    """The error of some work in a thread of its own, which may not share the lock of this one."""
    found: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as problem:
            found.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0] if found else None


def test_a_run_that_trains_cannot_be_resumed_or_extended_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fit(folder)
    seen: list[Exception | None] = []

    def during(learner: Learner) -> None:
        if not seen:
            seen.append(in_another_thread(lambda: fit(folder, steps=8, resume=True)))
            seen.append(in_another_thread(lambda: extend_run(folder, 8)))
            seen.append(in_another_thread(lambda: fit(folder)))

    fit(folder, steps=6, resume=True, callbacks=[during])
    resumed, extended, begun = seen
    for refused in (resumed, extended):
        assert isinstance(refused, BusyError)
        assert "is being written by quadric train, process" in str(refused)
    assert isinstance(begun, FileExistsError)
    assert is_finished(folder)
    assert not (folder / LOCK).exists()


def test_of_two_that_create_a_run_at_once_one_is_refused(tmp_path: Path) -> None:
    """The second waits until the first has its lock, then finds either the lock or the run."""
    folder = tmp_path / "run"
    fit(tmp_path / "other")
    config = quadric.run.config.read_run_config(tmp_path / "other")
    with only_writer(folder, "quadric train"):
        refused = in_another_thread(lambda: create_run(config, folder))
    assert isinstance(refused, BusyError)
    create_run(config, folder)
    with pytest.raises(FileExistsError, match="continue the run in it with: quadric train --resume"):
        create_run(config, folder)


@pytest.mark.parametrize("there", ["nothing", "an empty folder"])
def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(tmp_path: Path, there: str) -> None:
    folder = tmp_path / "deep" / "run"
    if there == "an empty folder":
        folder.mkdir(parents=True)

    fit(tmp_path / "other")
    config = quadric.run.config.read_run_config(tmp_path / "other")
    with pytest.raises(RuntimeError, match="no memory"), new_run(config, folder):
        raise RuntimeError("no memory")
    assert not (folder / "run.json").exists()
    create_run(config, folder)  # nothing blocks the next attempt


def test_a_run_that_fails_later_keeps_its_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Learner.step

    def fail(self: Learner, tokens: torch.Tensor) -> object:
        if self.step_index == 3:
            raise RuntimeError("out of memory")
        return step(self, tokens)

    monkeypatch.setattr(Learner, "step", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        fit(tmp_path / "run")
    monkeypatch.undo()
    assert (tmp_path / "run/checkpoints/step-00000002").is_dir()
    fit(tmp_path / "run", resume=True)
    assert is_finished(tmp_path / "run")


@pytest.mark.slow
def test_what_a_killed_start_left_does_not_block_the_next(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.run.json.4711").touch()
    (tmp_path / "run" / LOCK).touch()
    fit(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").glob(".*")) == []


def test_a_run_named_like_its_autoencoder_is_trained(world: Path, tmp_path: Path) -> None:
    name = "resid_pre.2-atomic-k24-seed0"
    assert main(train_command(world, tmp_path / name, "--prior", "atomic")) == 0
    assert (tmp_path / name / "autoencoders" / name / "config.json").is_file()
    assert quadric.load(tmp_path / name).n_latents == 24


def test_a_run_still_in_training_is_not_said_to_need_resuming(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    said: list[str] = []

    def during(learner: Learner) -> None:
        if learner.step_index == 1:
            for command in ("report", "site", "view"):
                assert main([command, str(folder)]) == 1
            said.extend(capsys.readouterr().err.splitlines())

    fit(folder, callbacks=[during])
    complaints = [line for line in said if line.startswith("quadric: ")]
    assert len(complaints) == 3
    for line in complaints:
        assert "holds no trained autoencoder yet; wait for quadric train, process" in line


def test_an_unfinished_run_is_said_to_need_resuming(tmp_path: Path) -> None:
    fit(tmp_path / "other")
    create_run(quadric.run.config.read_run_config(tmp_path / "other"), tmp_path / "run")
    for use in (lambda: autoencoder_folder(tmp_path / "run"), lambda: view(tmp_path / "run", wait=False)):
        with pytest.raises(FileNotFoundError, match="finish it with quadric train --resume"):
            use()


@pytest.mark.parametrize("name", ["provenance.json", "metrics.jsonl", "run.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_resuming_waits_for_no_pipe_and_reads_no_device(tmp_path: Path, name: str, kind: str) -> None:
    fit(tmp_path / "run")
    path = tmp_path / "run" / name
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises((ValueError, FileNotFoundError, FileExistsError)) as caught:
        fit(tmp_path / "run", steps=6, resume=True)
    assert name in str(caught.value) or name == "run.json"


@pytest.mark.parametrize("content", ["null", "[]", "{", '{"model": 1}'])
def test_a_damaged_provenance_is_one_line(tmp_path: Path, content: str) -> None:
    fit(tmp_path / "run")
    (tmp_path / "run/provenance.json").write_text(content)
    with pytest.raises(ValueError, match=r"provenance.json is .*; restore the file, or delete it"):
        fit(tmp_path / "run", steps=6, resume=True)


@pytest.mark.parametrize(
    ("n_processes", "words"),
    [
        (
            3,
            "3 processes cannot share 16 sequences per step; give a multiple of 3 with --seq",
        ),
        (
            4,
            "each of 4 processes reads 4 of the 16 .* whole forward passes of 8; give --sequences-per-forward 4",
        ),
    ],
)
def test_a_batch_that_processes_cannot_share_is_refused_before_the_run_exists(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_processes: int, words: str
) -> None:
    text = CorpusConfig(source=str(world / "text.txt"))
    config = run_of(DEMO, ActivationConfig(model=str(world / "tiny-llama"), hook_points="2", corpus=text))
    monkeypatch.setattr(running, "current_processes", lambda: Processes(0, n_processes))
    with pytest.raises(ValueError, match=words):
        create_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
