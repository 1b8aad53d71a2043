"""Reports on disk: each ending its own format, mistakes before any work."""

import csv
import json
from dataclasses import replace

import pytest

from quadric._io import files
from quadric.studies.reports.files import check_comparison_paths, check_report_paths, write_comparison, write_report
from quadric.studies.reports.run_comparison import compare_runs
from quadric.studies.reports.run_report import report_on
from tests.geometry.examples import planted_shapes, trained


def test_json_and_csv(tmp_path):
    report = replace(report_on("run", planted_shapes()), labels=[f'"{n}" · a, b\n' for n in range(6)])
    for ending in (".json", ".csv"):
        write_report(report, tmp_path / "deep" / f"report{ending}")
    assert json.loads((tmp_path / "deep/report.json").read_text()) == report.as_json()
    with (tmp_path / "deep/report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == report.labels
    assert [float(row["importance"]) for row in rows] == report.columns()["importance"]


def test_a_comparison_as_json_and_picture(tmp_path):
    comparison = compare_runs(["$a", "b"], [trained(), trained(seed=1)])
    write_comparison(comparison, tmp_path / "c.json")
    write_comparison(comparison, tmp_path / "c.png")
    stored = json.loads((tmp_path / "c.json").read_text())
    assert stored["matrices"]["frobenius"][0][1] == comparison.pairs[0, 1].agreement.frobenius
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_paths_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"'x.txt' ends in '.txt'; choose one of .csv, .json"):
        check_report_paths([tmp_path.__class__("x.txt")])
    with pytest.raises(ValueError, match=r"choose one of .json, .png"):
        check_comparison_paths([tmp_path / "x.csv"])
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_report_paths([tmp_path / "folder.json"])
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs matplotlib; install it with: pip install 'quadric\[figures\]'"):
        check_comparison_paths([tmp_path / "x.png"])
