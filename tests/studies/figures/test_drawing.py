"""Every figure, from a sweep to its files; the numbers in the CSV match their sources."""

import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import torch

from quadric.cli import main
from quadric.data.provenance import config_from
from quadric.evidence import EvidenceSettings, collect, open_cached, text_behind
from quadric.geometry import frobenius_similarity, hungarian_similarity, statistics
from quadric.model import load_pretrained
from quadric.run.folder import ablation_file
from quadric.studies.figures import (
    FIGURES,
    FigureData,
    MissingDataError,
    draw_figures,
    latents,
    read_figure_data,
)
from quadric.studies.figures.receptive_fields import log_exact_law, log_ratio
from quadric.studies.steering.ablation import AblationRow, Harm, write_ablation

pytestmark = pytest.mark.slow  # whole commands

WITHOUT_RUNS = {"receptive_fields", "receptive_gap"}


def made_up_ablation() -> list[AblationRow]:
    """Three latents with known means: 2 where they fire and 0.5 elsewhere."""
    nothing = Harm(0.1, 0.1, 0.1, 0.1)
    return [
        AblationRow(
            latent=latent, label="", mode="zero", density=0.1, n_fires=9, n_elsewhere=90, other_latent=5,
            own=Harm(1.0 + latent, 0.5, 1.0, 0.5), other=nothing, turned=nothing,
        )
        for latent in range(3)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def with_evidence(sweep_folder: Path, drawn_world: Path) -> Iterator[FigureData]:
    data = read_figure_data([sweep_folder])
    first = next(each for each in data.trained if each.kind == "composite")
    (cache,) = (sweep_folder / "activations").iterdir()
    autoencoder = first.load()
    assert config_from(autoencoder.provenance).hook_points == first.cell.hook_point
    stream = open_cached(autoencoder.provenance, cache, 128)
    text = text_behind(stream, str(drawn_world / "tiny-llama"))
    write_ablation(made_up_ablation(), ablation_file(first.run, first.cell.name))
    data = read_figure_data([sweep_folder])
    settings = EvidenceSettings(n_points=32)
    evidence = collect(autoencoder, stream, first.evidence, n_tokens=256, settings=settings, text=text)
    with pytest.MonkeyPatch.context() as patch:
        # After six steps every latent is dense, so lower the threshold until half of them count as sparse.
        patch.setattr(latents, "DENSE", float(np.median(evidence.statistics.density)))
        yield data


@pytest.mark.slow
def test_every_figure_writes_png_svg_and_csv(with_evidence: FigureData, tmp_path: Path) -> None:
    wider = with_evidence.rows[0] | {"cell": "wider", "n_latents": 48}  # the sweep has one size only
    data = replace(with_evidence, rows=(*with_evidence.rows, wider))
    assert draw_figures(data, tmp_path) == list(FIGURES)
    for name in FIGURES:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) > 1


def test_ablation_has_means_over_latents(with_evidence: FigureData) -> None:
    rows = FIGURES["ablation"](with_evidence).rows
    means = {(row["ablated"], row["where"]): row["mean"] for row in rows if row["panel"] == "means"}
    assert means["the latent itself", "fires"] == pytest.approx(2)
    assert means["the latent itself", "elsewhere"] == pytest.approx(0.5)
    assert sum(row["panel"] == "latents" for row in rows) == 3


def test_damaged_ablations_name_the_remedy(tmp_path: Path, sweep_folder: Path) -> None:
    import shutil

    run = next((sweep_folder / "runs").iterdir())
    shutil.copytree(run, tmp_path / "run")
    name = next((tmp_path / "run" / "autoencoders").iterdir()).name
    path = ablation_file(tmp_path / "run", name)
    path.parent.mkdir(exist_ok=True)
    for text in ("[1]", "{}", "[{}]", "nonsense"):
        path.write_text(text)
        with pytest.raises(ValueError, match="run quadric ablate again"):
            read_figure_data([tmp_path / "run"])


def test_error_for_missing_data_names_a_valid_command(tmp_path: Path) -> None:
    import shlex

    import tyro

    from quadric.cli import COMMANDS

    missing: dict[str, str] = {}
    drawn = draw_figures(FigureData(), tmp_path, on_missing=lambda name, problem: missing.update({name: str(problem)}))
    assert set(drawn) == WITHOUT_RUNS
    assert set(missing) == set(FIGURES) - WITHOUT_RUNS
    for problem in missing.values():
        command = shlex.split(problem.partition(": quadric ")[2])
        tyro.extras.subcommand_cli_from_dict(COMMANDS, args=command)


def test_requesting_a_figure_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="quadric sweep"):
        draw_figures(FigureData(), tmp_path, ["layers"])
    assert not (tmp_path / "layers.png").exists()


def test_priors_are_compared_at_the_alpha_of_most_of_them(data: FigureData) -> None:
    assert data.main_alpha == 0.05  # two seeds of three priors at two layers, beside one of each other alpha
    assert FigureData().main_alpha == 0.3


def test_the_legend_of_error_against_bits_is_not_pale(data: FigureData) -> None:
    (legend,) = FIGURES["error_bits"](data).figure.legends
    assert [mark.get_alpha() for mark in legend.legend_handles] == [0.9] * 3


def test_layers_are_means_over_seeds(data: FigureData) -> None:
    rows = FIGURES["layers"](data).rows
    assert {(row["layer"], row["kind"]) for row in rows} == {
        (layer, kind) for layer in (1, 2) for kind in ("atomic", "composite", "quadratic", "topk")
    }
    for row in rows:
        cells = [
            each["error"]
            for each in data.rows
            if (each["layer"], each["kind"]) == (row["layer"], row["kind"]) and each["alpha"] in (None, data.main_alpha)
        ]
        assert (row["seeds"], row["error"]) == (2, pytest.approx(mean(cells)))
        # Student's t for one degree of freedom and 95 % is 12.706.
        half = 12.7062 * abs(cells[0] - cells[1]) / 2
        assert row["high"] - row["error"] == pytest.approx(half, rel=1e-4)


def test_captured_medians_match_the_statistics_table(data: FigureData) -> None:
    rows = FIGURES["captured"](data).rows
    for prior in ("composite", "quadratic"):
        trained = next(
            each
            for each in data.at_commonest_size("composite", "quadratic")
            if (each.kind, each.alpha) == (prior, data.main_alpha)
        )
        table = statistics(trained.load())
        for rank, column in ((1, "captured_1"), (3, "captured"), (5, "captured_5")):
            (row,) = (r for r in rows if (r["panel"], r["prior"], r["x"]) == ("median", prior, rank))
            living = table[column][table.norm > 0]
            assert row["value"] == pytest.approx(living.quantile(0.5).item())
            shares = [r["value"] for r in rows if (r["panel"], r["prior"]) == (f"histogram, rank {rank}", prior)]
            assert sum(shares) == pytest.approx(1)


def test_similarities_match_the_geometry_functions(data: FigureData) -> None:
    rows = FIGURES["similarity"](data).rows
    members = {
        each.alpha: each.load()
        for each in data.at_commonest_size("composite")
        if each.kind == "composite" and each.cell.seed == 0
    }
    (row,) = (r for r in rows if (r["prior"], r["row"], r["column"]) == ("composite", "0.7", "0"))
    assert row["frobenius"] == pytest.approx(frobenius_similarity(members[0.7], members[0.0]))
    printed = hungarian_similarity(members[0.7], members[0.0])
    assert row["hungarian"] == pytest.approx(printed.similarity, rel=1e-5)
    free = hungarian_similarity(members[0.7], members[0.0], sign_free=True)
    assert row["alignment"] == pytest.approx(free.alignment, rel=1e-5)
    labels = [r["column"] for r in rows if (r["prior"], r["row"]) == ("composite", "0")]
    assert labels == ["random", "0", "0.05", "0.3", "0.7", "quadratic"]


def test_stability_compares_every_pair_of_seeds_and_each_with_chance(data: FigureData) -> None:
    rows = FIGURES["stability"](data).rows
    for prior in ("atomic", "composite", "quadratic"):
        assert [r["other"] for r in rows if r["prior"] == prior] == ["1", "random", "random"]


@pytest.mark.parametrize("threshold", [0.1, 0.25, 0.5])
def test_the_ratio_converges_to_the_exact_law(threshold: float) -> None:
    gaps = [log_exact_law(threshold, d) - log_ratio(threshold, d) for d in (256, 1024, 4096)]
    assert abs(gaps[2]) < abs(gaps[1]) < abs(gaps[0])
    assert abs(gaps[2]) < 0.03


def test_the_papers_number_at_d_1024_is_the_printed_law_not_the_exact_ratio(data: FigureData) -> None:
    rows = FIGURES["receptive_gap"](data).rows
    (row,) = (r for r in rows if (r["threshold"], r["d_model"]) == (0.5, 1024))
    assert row["log10_printed_law"] == pytest.approx(-55.6, abs=0.1)  # the paper's 10⁻⁵⁶
    assert row["log10_ratio"] == pytest.approx(math.log10(2**0.5) - 1023 / 2 * math.log10(1.5), abs=0.01)


def test_random_latents_are_the_first_latents_that_are_not_dense(with_evidence: FigureData) -> None:
    from quadric.evidence import Evidence

    rows = FIGURES["random_latents"](with_evidence).rows
    first = next(each for each in with_evidence.trained if each.kind == "composite")
    evidence = Evidence.load(first.evidence)
    sparse = [i for i, density in enumerate(evidence.statistics.density) if density <= latents.DENSE]
    assert list(dict.fromkeys(row["latent"] for row in rows)) == sparse[:6]
    row = rows[0]
    assert row["activation"] == pytest.approx(float(evidence.points.values[sparse[0], 0]))
    largest = load_pretrained(first.folder).form(sparse[0])
    assert abs(row["activation"]) <= torch.linalg.matrix_norm(largest, 2).item() + 1e-5


def test_the_command_lists_drawn_and_skipped_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 2
    assert "layers: not drawn; " in captured.err
    assert main(["figures", str(tmp_path)]) == 1
    assert "neither a run nor a sweep" in capsys.readouterr().err


def test_the_command_offers_every_figure() -> None:
    import re

    from quadric.cli.figures import Figures

    offered = re.findall(r"'(\w+)'", str(Figures.__annotations__["only"]))
    assert offered == list(FIGURES)
