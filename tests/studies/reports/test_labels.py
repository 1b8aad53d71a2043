"""Labels in a report: read where the evidence is about these very weights, and left out otherwise."""

from dataclasses import replace
from pathlib import Path

import pytest

from quadric.evidence import Collector, Evidence, evidence_of, gather
from quadric.evidence.record import ModelLabels
from quadric.evidence.storage import replace_labels
from quadric.studies.reports.labels import stored_labels
from quadric.studies.reports.run_report import report_on_run
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS


@pytest.fixture
def run(tmp_path: Path) -> Path:
    ae, text = small_autoencoder(), RandomText(30)
    ae.save_pretrained(tmp_path / "run/autoencoders/only")
    collector = Collector(ae, SETTINGS)
    gather(collector, RandomStream(text, 100), text, n_tokens=10**9)
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
