"""What a report says of hand-built latents; its labels, which are left out unless they are about these very weights."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from quadric import TopKAutoencoder
from quadric.evidence import Evidence
from quadric.evidence.collecting import gather
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.evidence.record import ModelLabels
from quadric.evidence.storage import replace_labels
from quadric.geometry import SHAPES, dictionary_geometry
from quadric.studies.reports.run_report import (
    histogram,
    quantiles,
    readable_bits,
    report_on,
    report_on_run,
    stored_labels,
    write_report,
)
from tests import zoo
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS
from tests.geometry.examples import by_hand, planted_shapes, trained


def test_a_report_on_planted_shapes():
    report = report_on("planted", planted_shapes())
    assert report.shape_counts() == {"hyperboloid": 1, "ellipsoid": 3, "slab": 1, "empty": 1}
    assert (report.about, report.n_copies()) == ("the origin", 0)
    assert report.most_important(3) == [5, 3, 0]
    assert report.architecture["d_model"] == 12
    quantile = report.summary()["quantiles"]["effective_rank"]
    assert (quantile["min"], quantile["max"]) == pytest.approx((1, 3))
    assert report.captured_curve()[-1] == pytest.approx(1)


def test_everything_is_plain_and_finite():
    values = json.loads(json.dumps(report_on("run", trained("quadratic")).as_json(), allow_nan=False))
    assert values["run"] == "run"
    assert values["tolerance"] == 0.01
    assert len(values["latents"]["bits"]) == 20
    assert set(values["latents"]["shape"]) <= set(SHAPES)
    assert set(values["latents"]["copy_of"]) == {-1}
    assert set(values["latents"]["curvature"]) == {1.0}


def test_the_tolerance_decides_the_shapes():
    ae = by_hand(torch.eye(3)[:2], torch.eye(3)[:2], torch.tensor([[1.0, -0.2]]))
    assert report_on("run", ae).shape_counts() == {"hyperboloid": 1}
    assert report_on("run", ae, tolerance=0.1).shape_counts() == {"slab": 1}


def test_shapes_are_about_the_centre_that_is_known():
    """The mean times a direction is a hyperboloid about the origin and a half-space about the mean."""
    ae = by_hand(torch.eye(3)[:1], torch.eye(3)[1:2], torch.eye(1))
    assert report_on("run", ae).shape_counts() == {"hyperboloid": 1}
    geometry = dictionary_geometry(ae, moments=0.7 * torch.eye(3)[0])
    report = report_on("run", ae, geometry=geometry)
    assert report.shape_counts() == {"half-space": 1}
    assert report.about == "the mean token of the run's evidence"
    assert float(report.latents.curvature) == 0
    assert report_on("run", ae, tolerance=0.2, geometry=geometry).shape_counts() == {"half-space": 1}
    assert report_on("run", zoo.make("atomic affine")).about == "the lens's centre"


def test_a_report_on_nothing():
    ae = by_hand(torch.zeros(2, 3), torch.zeros(2, 3), torch.eye(2))
    report = report_on("nothing", ae)
    assert report.shape_counts()["empty"] == 2
    assert report.summary()["quantiles"]["support"] == {}


def test_a_linear_dictionary_is_reported_as_half_spaces():
    report = report_on("run", TopKAutoencoder(d_model=4, n_latents=8, n_active=2))
    assert report.shape_counts() == {"half-space": 8}
    assert report.dictionary() == "8 linear (topk) latents"
    assert report.about == "the decoder's bias"
    assert report.columns()["linear"] == [True] * 8
    assert report.as_json()["kind"] == "topk"
    assert report_on("run", trained()).dictionary().endswith("composite latents")


def test_histograms_and_quantiles():
    values = torch.tensor([0.0, 1.0, 1.5, 4.0])
    assert histogram(values, 4) == ([1, 2, 0, 1], 0.0, 4.0)
    assert histogram(torch.ones(3), 4) == ([0, 0, 3, 0], 1.0, 1.0)
    assert histogram(torch.zeros(0), 2) == ([0, 0], 0.0, 0.0)
    assert quantiles(torch.arange(101.0)) == {"min": 0, "p05": 5, "median": 50, "p95": 95, "max": 100}


def test_sizes_are_readable():
    assert [readable_bits(bits) for bits in (8.0, 8.0 * 2**10, 24.0 * 2**20, 8.0 * 2**31)] == [
        "1 B",
        "1 KiB",
        "3 MiB",
        "2 GiB",
    ]


def test_json_and_csv(tmp_path):
    report = replace(report_on("run", planted_shapes()), labels=[f'"{n}" · a, b\n' for n in range(6)])
    for ending in (".json", ".csv"):
        write_report(report, tmp_path / "deep" / f"report{ending}")
    assert json.loads((tmp_path / "deep/report.json").read_text()) == report.as_json()
    with (tmp_path / "deep/report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == report.labels
    assert [float(row["importance"]) for row in rows] == report.columns()["importance"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    ae, text = small_autoencoder(), RandomText(30)
    ae.save_pretrained(tmp_path / "run/autoencoders/only")
    collector = Collector(ae, SETTINGS)
    gather([collector], RandomStream(text, 100), text, n_tokens=10**9)
    evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), []).save(tmp_path / "run/evidence/only")
    return tmp_path / "run"


def test_labels_are_those_of_the_evidence(run: Path) -> None:
    labels = Evidence.load(run / "evidence/only").labels
    report = report_on_run(str(run))
    assert report.labels == [labels.of(latent) for latent in range(len(labels.texts))]
    assert report.columns()["label"] == report.labels


def test_a_label_that_a_model_wrote_comes_first(run: Path) -> None:
    labels = Evidence.load(run / "evidence/only").labels
    written = ModelLabels(texts={2: "days of the week"}, model="m", endpoint="e", prompt_sha256="0")
    replace_labels(run / "evidence/only", replace(labels, from_model=written))
    found = report_on_run(str(run)).labels
    assert found is not None
    assert found[2] == "days of the week"
    assert found[1] == labels.texts[1]


def test_labels_about_other_weights_are_left_out(run: Path) -> None:
    assert stored_labels(run / "evidence/only", small_autoencoder()) is not None
    assert stored_labels(run / "evidence/only", small_autoencoder(seed=9)) is None
    assert stored_labels(run / "nowhere", small_autoencoder()) is None
