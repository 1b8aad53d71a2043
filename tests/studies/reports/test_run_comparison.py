"""Matrices over several runs, in files and pictures."""

import io
import json
from importlib import import_module

import pytest

from quadric.geometry import compare, frobenius_similarity, hungarian_similarity
from quadric.studies.reports.run_comparison import (
    MEASURES,
    compare_runs,
    comparison_as_png,
    short_names,
    write_comparison,
)
from tests.geometry.examples import planted_shapes, trained
from tests.zoo import make


@pytest.fixture(scope="module")
def comparison():
    runs = [trained(), trained("atomic"), make("quadratic")]
    return compare_runs(["a", "b", "c"], runs), runs


def test_every_measure_is_a_matrix_over_all_runs(comparison):
    found, runs = comparison
    for i, a in enumerate(runs):
        for j, b in enumerate(runs):
            assert found.matrix("frobenius")[i][j] == pytest.approx(frobenius_similarity(a, b))
            assert found.matrix("hungarian")[i][j] == pytest.approx(hungarian_similarity(a, b).similarity)
            sign_free = hungarian_similarity(a, b, sign_free=True)
            assert found.matrix("hungarian_sign_free")[i][j] == pytest.approx(sign_free.similarity)
            assert found.matrix("alignment_sign_free")[i][j] == pytest.approx(sign_free.alignment)
    assert found.matrix("hungarian")[0][2] != pytest.approx(found.matrix("hungarian")[2][0])


def test_pairs_carry_their_nulls_and_assignments(comparison):
    found, runs = comparison
    stored = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert stored["runs"] == ["a", "b", "c"]
    assert stored["matrices"].keys() == MEASURES.keys()
    single = compare(runs[0], runs[2])
    pair = next(pair for pair in stored["pairs"] if (pair["first"], pair["second"]) == (0, 2))
    assert pair["random_initialization"]["frobenius"] == single.random.frobenius
    assert pair["random_rotation"]["frobenius"] == single.rotated_frobenius
    assert pair["matched"]["partners"] == single.agreement.hungarian.partners.tolist()
    assert len(pair["matched"]["cosines"]) == 16


def test_progress_counts_every_pair():
    told = []
    compare_runs(["a", "b", "c"], [planted_shapes()] * 3, on_progress=lambda *report: told.append(report))
    assert told == [("comparing", done, 3, "") for done in (1, 2, 3)]


def test_names_are_as_short_as_they_can_be():
    assert short_names(["runs/a", "runs/b/"]) == ["a", "b"]
    assert short_names(["x/run", "y/run"]) == ["x/run", "y/run"]
    assert short_names(["run", "run"]) == ["run #1", "run #2"]


def test_a_comparison_as_json_and_picture(tmp_path):
    comparison = compare_runs(["$a", "b"], [trained(), trained(seed=1)])
    write_comparison(comparison, tmp_path / "c.json")
    write_comparison(comparison, tmp_path / "c.png")
    stored = json.loads((tmp_path / "c.json").read_text())
    assert stored["matrices"]["frobenius"][0][1] == comparison.pairs[0, 1].agreement.frobenius
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_shows_the_values():
    comparison = compare_runs(["$a_b$", "b"], [trained(), trained(seed=1)])
    image = import_module("matplotlib.image").imread(io.BytesIO(comparison_as_png(comparison)))
    assert image.shape[0] > 200
    assert image.shape[1] > 2 * image.shape[0]
    viridis = import_module("matplotlib").colormaps["viridis"]
    for value in (1.0, comparison.matrix("frobenius")[0][1], comparison.matrix("alignment_sign_free")[0][1]):
        distance = abs(image[..., :3] - viridis(value)[:3]).max(axis=-1)
        assert (distance < 0.02).sum() > 1000
