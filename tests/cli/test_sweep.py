"""`quadric sweep` as its user sees it: cells, the table, and what happens when it stops."""

import csv
import shutil
from pathlib import Path

import pytest
import tyro
from pyarrow import parquet

from quadric import Composite, paper_loss
from quadric.cli import main
from quadric.cli.sweep import Sweep
from quadric.run.folder import autoencoder_folders
from quadric.run.recipes import PAPER
from quadric.studies import sweep as package
from quadric.studies.sweep import Watcher, read_rows, sweep
from quadric.studies.sweep.rows import row_path
from quadric.train import Learner
from tests import fresh_process
from tests.cli.terminal import only_complaint, run_on_a_terminal
from tests.tiny_runs import make_tiny_world, sweep_command

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def finished(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, two dictionaries, in two groups."""
    folder = tmp_path_factory.mktemp("sweeps") / "finished"
    assert main(sweep_command(world, folder, "--cells-together", "3")) == 0
    return folder


def test_every_cell_is_a_row_of_the_parquet_and_of_the_csv(finished: Path) -> None:
    table = parquet.read_table(finished / "results.parquet").to_pylist()
    assert [(row["layer"], row["kind"]) for row in table] == [
        (1, "composite"),
        (1, "topk"),
        (2, "composite"),
        (2, "topk"),
    ]
    for row in table:
        assert row["error_low"] <= row["error"] <= row["error_high"]
        assert (row["bits"] is None) == (row["kind"] == "topk")
        assert row["model"] == "tiny-llama"
    with (finished / "results.csv").open(newline="") as file:
        assert [float(row["error"]) for row in csv.DictReader(file)] == [row["error"] for row in table]


def test_groups_are_run_folders_that_share_one_cache(finished: Path) -> None:
    assert [len(autoencoder_folders(run)) for run in sorted((finished / "runs").iterdir())] == [3, 1]
    assert [each.name for each in (finished / "activations").iterdir()] == ["resid_pre.1+resid_pre.2"]


def test_a_finished_sweep_has_nothing_left_to_do(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    assert main(["sweep", "--resume", str(finished)]) == 0
    captured = capsys.readouterr()
    assert "4 cells, 4 finished" in captured.err
    assert "training" not in captured.err
    changed = {path.name for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"results.parquet", "results.csv"}


def test_a_new_sweep_reads_activations_that_are_linked_into_its_folder(
    world: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "activations").symlink_to(finished / "activations")

    def no_model(*arguments: object, **options: object) -> None:
        raise AssertionError("the activations are stored already")

    monkeypatch.setattr("quadric.data.harvesting.load_model", no_model)
    assert main(sweep_command(world, folder, "--layers", "2", "--prior", "topk", "--n-latents", "16")) == 0
    assert [row["n_latents"] for row in read_rows(folder)] == [16]


class Interrupting(Watcher):
    """Stops the sweep when the first group is measured and the second is in training."""

    def __init__(self) -> None:
        self.groups = 0

    def train(self, cells: list[str], steps: int) -> None:
        self.groups += 1

    def step(self, learner: Learner) -> None:
        if self.groups == 2 and learner.step_index == 3:
            raise KeyboardInterrupt


def test_an_interrupted_sweep_goes_on_to_the_same_rows(
    world: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "interrupted"
    monkeypatch.setattr(package, "sweep", lambda folder, **options: sweep(folder, watcher=Interrupting()))
    assert main(sweep_command(world, folder, "--cells-together", "3")) == 130
    assert f"quadric sweep --resume {folder}" in capsys.readouterr().err
    assert len(read_rows(folder)) == 3
    monkeypatch.undo()
    assert main(["sweep", "--resume", str(folder)]) == 0
    assert "1 left" in capsys.readouterr().err
    assert read_rows(folder) == read_rows(finished)


def test_a_larger_grid_trains_only_what_is_new(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "growing"
    assert main(sweep_command(world, folder, "--layers", "1", "--prior", "topk")) == 0
    (old,) = read_rows(folder)
    assert main(sweep_command(world, folder, "--layers", "1,2", "--prior", "topk")) == 0
    assert "training 1 cells together" in capsys.readouterr().err
    assert [row["layer"] for row in read_rows(folder)] == [1, 2]
    assert read_rows(folder)[0] == old
    assert main(sweep_command(world, folder, "--layers", "1", "--prior", "atomic", "--n-latents", "16")) == 0
    assert [(row["kind"], row["n_latents"]) for row in read_rows(folder)] == [
        ("atomic", 16),
        ("topk", 24),
        ("topk", 24),
    ]


def test_a_live_sweep_stores_no_activations_and_trains_the_same_cells(
    world: Path, finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "live"
    assert main(sweep_command(world, folder, "--live", "--prior", "topk", "--layers", "1")) == 0
    assert not (folder / "activations").exists()
    assert {row["cell"] for row in read_rows(folder)} < {row["cell"] for row in read_rows(finished)}


def test_cells_of_one_table_are_trained_alike(world: Path, finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(sweep_command(world, finished, "--steps", "5")) == 1
    assert "training.steps: stored 6, asked for 5" in only_complaint(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resume", "nowhere", "--steps", "3"], "--steps cannot be given with --resume"),
        (["--resume", "nowhere"], "no sweep.json in 'nowhere'"),
        ([], "no folder was given"),
    ],
)
def test_mistakes_are_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *flags]) == 1
    assert message in only_complaint(capsys.readouterr().err)


def test_the_papers_sweep_fills_in_what_is_left_out_and_nothing_else(world: Path) -> None:
    model = str(world / "tiny-llama")
    whole = parse("--paper", "qwen", "--model", model, "--device", "cpu").sweep_config()
    assert whole.activations.hook_points == "0,2"
    assert whole.activations.corpus.source == "HuggingFaceFW/fineweb"
    assert [cell.settings.kind for cell in whole.cells] == ["atomic", "composite", "quadratic", "topk"] * 2
    assert {cell.hook_point for cell in whole.cells} == {"resid_pre.0", "resid_pre.2"}
    assert (whole.training, whole.sequences_per_step) == (PAPER.training, PAPER.sequences_per_step)
    flags = ("--layers", "3", "--prior", "composite", "--n-latents", "64", "--outliers", "keep")
    part = parse("--paper", "qwen", "--model", model, *flags).sweep_config()
    assert part.activations.rules.outliers == "keep"
    assert part.activations.hook_points == "3"
    (cell,) = part.cells
    assert cell.settings == Composite(n_latents=64, lens="paper", atoms_per_latent=16.384, initial_density=1.0)
    assert cell.loss == paper_loss()
    even = parse("--layers", "even", "--model", model, "--corpus", "other.txt").sweep_config()
    assert even.activations.hook_points == "0,2"
    assert even.activations.corpus.source == "other.txt"


def parse(*arguments: str) -> Sweep:
    return tyro.cli(Sweep, args=arguments)


def test_a_sweep_on_a_real_terminal(world: Path, tmp_path: Path) -> None:
    command = sweep_command(world, tmp_path / "sweep", "--layers", "1")
    code, shown = run_on_a_terminal(fresh_process.module("quadric"), *command)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "2 of 2 cells finished" in shown


def test_a_sweep_goes_on_where_its_model_and_text_are_now(world: Path, tmp_path: Path) -> None:
    first, second, folder = tmp_path / "first", tmp_path / "second", tmp_path / "sweep"
    shutil.copytree(world, first)
    command = sweep_command(first, folder, "--layers", "1", "--prior", "topk")
    assert main(command) == 0
    row_path(folder, read_rows(folder)[0]["cell"]).unlink()  # so that the held-out text is read again
    first.rename(second)
    assert main(["sweep", "--resume", str(folder)]) == 1
    where = ("--model", str(second / "tiny-llama"), "--corpus", str(second / "text.txt"))
    assert main(["sweep", "--resume", str(folder), *where]) == 0
    assert len(read_rows(folder)) == 1
