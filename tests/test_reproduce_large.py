"""The reproduction at the paper's proportions, on a tiny model: it runs, resumes, and reports what is missing."""

import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from quadric.train.loop import InterruptedTraining
from tests.tiny_runs import make_tiny_world

pytestmark = pytest.mark.slow  # trains a dozen dictionaries

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "results").glob("large*/claims.md"))


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    module = importlib.import_module("reproduce_large")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "matmul_rate", lambda: 1e11)  # measuring it takes a second
        yield module
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


def arguments(world: Path, work: Path, *more: str) -> list[str]:
    return [
        *("--model", str(world / "tiny-llama"), "--corpus", f"{world / 'text.txt'}+{world / 'text.txt'}"),
        *("--document-separator", "\n\n", "--block-length", "32", "--k", "24", "--widths", "8", "24"),
        *("--n-active", "4", "--steps", "8", "--sequences-per-step", "8", "--curve-every", "2", "--tokens", "512"),
        *("--initial-atoms", "inf", "--gradient-dtype", "auto", "--held-out-tokens", "256"),
        *("--work", str(work / "work"), "--results", str(work / "results"), *more),
    ]


def test_a_killed_run_goes_on_and_ends_with_the_same_page(
    script: ModuleType, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = script.parsed(arguments(world, tmp_path))
    write, written = script.write_page, []

    def write_when_complete(configs: list[object], settings: object, work: Path, *others: object) -> Path:
        """Drawing after every cell takes most of the time."""
        written.append(len(list((work / "rows").iterdir())))
        complete = written[-1] == len(configs)
        return write(configs, settings, work, *others) if complete else tmp_path

    monkeypatch.setattr(script, "write_page", write_when_complete)
    cells = importlib.import_module("large_cells")
    measure, calls = cells.Curve.measure_newest, []

    def stop_at_the_sixth(curve: object) -> None:
        calls.append(1)
        if len(calls) == 6:
            raise InterruptedTraining("killed")
        measure(curve)

    with monkeypatch.context() as patch:
        patch.setattr(cells.Curve, "measure_newest", stop_at_the_sixth)
        with pytest.raises(KeyboardInterrupt):
            script.run(options)
    assert not list((tmp_path / "work" / "rows").glob("*"))
    script.run(options)
    assert written == [*range(1, 16), 15]  # after every cell, and once at the end
    page = (tmp_path / "results" / "claims.md").read_text()
    assert "All 15 cells are finished" in page
    assert importlib.import_module("paper_claims").NOT_YET not in page
    assert "After 8 steps, the last that composite, topk, atomic, quadratic have all reached: " in page
    assert "With the 32 largest latents of every token: TopK 0." in page
    seeds = page.split("over the course of training:")[1].splitlines()
    by_step = dict(line.strip("| ").split(" | ", 1) for line in seeds[4:9])
    assert list(by_step) == ["0", "2", "4", "6", "8"]
    (final,) = (line for line in page.splitlines() if line.startswith("| seeds, composite |"))
    assert final.endswith(f"{by_step['8']} |")
    assert by_step["0"] != by_step["8"]
    for path in (tmp_path / "work" / "curves").iterdir():
        assert list(json.loads(path.read_text())) == ["0", "2", "4", "6", "8"]
    for name in ("widths", "convergence"):
        assert (tmp_path / "results" / f"{name}.svg").is_file()
        assert not (tmp_path / "results" / f"{name}.png").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.json")}
    script.run(options)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.json")}
    with pytest.raises(ValueError, match="steps=8, now 4"):
        script.run(script.parsed(arguments(world, tmp_path, "--steps", "4")))


def test_the_last_point_of_a_curve_is_the_error_of_the_cell(script: ModuleType, world: Path, tmp_path: Path) -> None:
    more = ("--only", "affine-k24-", "--initial-atoms", "20", "--gradient-dtype", "bfloat16")
    more += ("--learning-rate", "0.05", "--learning-rate-decay", "0.5", "--alpha-warmup", "6")
    script.run(script.parsed(arguments(world, tmp_path, *more)))
    rows = [json.loads(path.read_text()) for path in (tmp_path / "work" / "rows").iterdir()]
    assert {row["seed"] for row in rows} == {0, 1}
    for row in rows:
        curve = json.loads((tmp_path / "work" / "curves" / f"{row['cell']}.json").read_text())
        assert curve["8"] == pytest.approx(row["error"], rel=1e-5)
    page = (tmp_path / "results" / "claims.md").read_text()
    assert "2 of 15 cells are finished" in page
    assert "| Order of the priors | quadratic < composite < atomic | not measured yet |" in page
    assert page.splitlines()[0] == "# 8 to 24 latents: 8 steps, decaying learning rate"
    elsewhere = ("--results", str(tmp_path / "elsewhere"))
    script.run(script.parsed(arguments(world, tmp_path, "--page", *elsewhere)))  # other settings, the same work
    page = (tmp_path / "elsewhere" / "claims.md").read_text()
    assert "0 of 15 cells are finished" in page
    assert "seeds, default" not in page


def test_another_machine_goes_on_from_the_record(script: ModuleType, world: Path, tmp_path: Path) -> None:
    first, second = "affine-k24-", "topk-k8-"
    script.run(script.parsed(arguments(world, tmp_path, "--only", first)))
    results, there = tmp_path / "results", tmp_path / "there"
    assert str(tmp_path) not in (results / "measured.json").read_text().replace(f"{world / 'text.txt'}", "")
    before = (results / "claims.md").read_text()
    moved = ("--work", str(there))
    script.run(script.parsed(arguments(world, tmp_path, "--only", first, second, *moved)))
    assert [path.name.split("-")[1] for path in (there / "runs").iterdir()] == ["topk"]
    after = (results / "claims.md").read_text()
    assert "2 of 15 cells are finished" in before
    assert "3 of 15 cells are finished" in after
    assert [line for line in before.splitlines() if "affine | 0.05" in line] == [
        line for line in after.splitlines() if "affine | 0.05" in line
    ]
    assert "seeds, default" in after
    script.run(script.parsed(arguments(world, tmp_path, "--only", second, "--again", first, *moved)))
    assert len(list((there / "runs").iterdir())) == 3
    page = (results / "claims.md").read_text()
    with pytest.raises(ValueError, match=r"measured with other settings \(tokens=512, now 256\).*another --results"):
        script.run(script.parsed(arguments(world, tmp_path, "--page", "--tokens", "256")))
    with pytest.raises(ValueError, match=r"measured with other settings \(widths=\[8, 24\], now \[24\]\)"):
        script.run(script.parsed(arguments(world, tmp_path, "--page", "--widths", "24")))
    assert (results / "claims.md").read_text() == page
    script.run(script.parsed(arguments(world, tmp_path, "--page", "--widths", "8", "12", "24", *moved)))
    assert "3 of 20 cells are finished" in (results / "claims.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_printed_command_goes_on_from_the_committed_record(
    script: ModuleType, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that differ from the record's would be an error."""
    smollm2 = SimpleNamespace(d_model=576, n_layers=30)  # the model itself would have to be downloaded
    for module in (script, importlib.import_module("large_cells")):
        monkeypatch.setattr(module, "find_model", lambda name: name)
        monkeypatch.setattr(module, "load_shape", lambda name: smollm2)
    (command,) = (line for line in page.read_text().splitlines() if line.startswith("python benchmarks/"))
    options = script.parsed(shlex.split(command)[2:])
    assert ROOT / options.results == page.parent
    assert not options.only
    record = script.read_record(script.settings_of(options), page.parent)
    assert script.recorded_cells(record)


def test_a_linear_latent_is_told_from_a_square(script: ModuleType) -> None:
    tokens = torch.randn(4000, 6, generator=torch.Generator().manual_seed(0))
    latents = torch.stack(
        [3 * tokens[:, 0] - tokens[:, 5] + 2, tokens[:, 1] ** 2, tokens[:, 2] * (1 + tokens[:, 3])], 1
    )
    shares = importlib.import_module("large_cells").linear_share(tokens, latents)
    assert shares == pytest.approx([1, 0, 0.5], abs=0.06)


def test_the_plan_trains_nothing_and_unknown_cells_are_an_error(
    script: ModuleType, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.run(script.parsed(arguments(world, tmp_path, "--plan")))
    assert "all of them" in capsys.readouterr().out
    assert not (tmp_path / "work").exists()
    with pytest.raises(ValueError, match="fits no cell"):
        script.run(script.parsed(arguments(world, tmp_path, "--only", "nonsense")))
    with pytest.raises(ValueError, match=r"--initial-atoms nan is below"):
        script.run(script.parsed(arguments(world, tmp_path, "--initial-atoms", "nan")))
    with pytest.raises(ValueError, match=r"--initial-atoms 4 is below the 16 that latents keep"):
        script.run(script.parsed(arguments(world, tmp_path, "--initial-atoms", "4")))
    with pytest.raises(ValueError, match="unknown corpus"):
        script.run(script.parsed([*arguments(world, tmp_path), "--corpus", "nonsense"]))
    assert not (tmp_path / "work").exists()
