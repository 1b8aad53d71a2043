"""The table of latents: its columns, and what other tools read from it."""

import csv
import dataclasses
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.evidence import EvidenceSettings, ModelLabels, RowText, collect_evidence
from quadric.evidence.collecting import collect_in_memory
from quadric.evidence.table import EVIDENCE_COLUMNS, GEOMETRY_COLUMNS, LatentTable, latents
from quadric.geometry import dictionary_geometry, statistics
from tests.evidence.test_rows import CLUSTERS, TensorStream, clustered_rows, names, one_latent_per_cluster
from tests.zoo import make

ROWS = clustered_rows()
EVIDENCE = collect_in_memory(
    one_latent_per_cluster(),
    TensorStream(ROWS),
    RowText(len(ROWS), names()),
    n_tokens=len(ROWS),
    settings=EvidenceSettings(n_points=60, firing_rms=1.0),
)
AWKWARD = '=SUM(1, 2) "quoted", and\na new line'


def table_with_awkward_label() -> LatentTable:
    written = ModelLabels(texts={1: AWKWARD}, model="m", endpoint="http://x", prompt_sha256="0")
    labels = dataclasses.replace(EVIDENCE.labels, from_model=written)
    return latents(one_latent_per_cluster(), dataclasses.replace(EVIDENCE, labels=labels))


@pytest.mark.parametrize("variety", ["atomic", "composite dense storage", "quadratic"])
def test_geometry_columns_are_the_statistics(variety: str) -> None:
    ae = make(variety)
    table, expected = latents(ae), statistics(ae)
    assert list(table) == ["index", *GEOMETRY_COLUMNS]
    assert len(table) == ae.n_latents
    np.testing.assert_array_equal(table["index"], np.arange(ae.n_latents))
    assert tuple(table["shape"]) == expected.shape
    for name in GEOMETRY_COLUMNS[1:]:
        np.testing.assert_array_equal(table[name], expected[name])


def test_known_geometry_gives_the_same_table() -> None:
    ae = make("quadratic")
    known, fresh = latents(ae, geometry=dictionary_geometry(ae)), latents(ae)
    assert list(known) == list(fresh)
    for name in GEOMETRY_COLUMNS[1:]:
        np.testing.assert_allclose(known[name], fresh[name], rtol=1e-11)


def test_evidence_adds_labels_and_firing() -> None:
    table = latents(one_latent_per_cluster(), EVIDENCE)
    assert list(table) == ["index", *GEOMETRY_COLUMNS, *EVIDENCE_COLUMNS]
    assert table["label"].tolist() == list(CLUSTERS)
    for name in EVIDENCE_COLUMNS[2:]:
        np.testing.assert_array_equal(table[name], getattr(EVIDENCE.statistics, name))
    np.testing.assert_array_equal(table["measured_curvature"], EVIDENCE.statistics.curvature)
    assert table_with_awkward_label()["label"][1] == AWKWARD


def test_with_evidence_latents_are_read_about_the_centre_of_its_tokens() -> None:
    """(m·x)(v·x), negated: linear about the mean, and turned so that the side with more energy is positive."""
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor([2.0, 0, 0, 0]) + 0.4 * torch.randn(400, 4, generator=generator)
    ae = BilinearAutoencoder(d_model=4, n_latents=2, prior="atomic")
    with torch.no_grad():
        ae.left[0], ae.right[0] = torch.eye(4)[0], torch.eye(4)[1]
        ae.left[1], ae.right[1] = torch.eye(4)[2], -torch.eye(4)[2]
    evidence = collect_evidence(ae, x, progress=False)
    alone, about_tokens = latents(ae), latents(ae, evidence)
    assert alone["shape"].tolist() == ["hyperboloid", "slab"]
    assert about_tokens["shape"].tolist() == ["half-space", "slab"]
    assert about_tokens["curvature"][0] < 0.05
    assert about_tokens["measured_curvature"][0] < 0.1
    assert about_tokens["measured_curvature"][1] > 0.8
    assert (alone["positive"][1], alone["negative"][1]) == (0, 1)
    assert evidence.calibration.signs[1] == -1
    assert (about_tokens["positive"][1], about_tokens["negative"][1]) == (1, 0)


def test_a_data_frame_has_the_same_columns_and_types() -> None:
    table = latents(one_latent_per_cluster(), EVIDENCE)
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(table)
    for name, values in table.columns.items():
        assert frame[name].tolist() == values.tolist()
    assert frame["support"].dtype.kind == "i"
    assert frame["density"].dtype.kind == "f"
    assert frame.sort_values("importance").shape == (3, 17)


def test_csv_is_read_back_with_awkward_labels(tmp_path: Path) -> None:
    table = table_with_awkward_label()
    table.to_csv(tmp_path / "latents.csv")
    text = (tmp_path / "latents.csv").read_text(encoding="utf-8")
    assert text.startswith('"index","shape","curvature"')
    assert '"\'=SUM(1, 2) ""quoted"", and\na new line"' in text  # not a formula
    with (tmp_path / "latents.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"].removeprefix("'") for row in rows] == table["label"].tolist()
    assert [float(row["density"]) for row in rows] == table["density"].tolist()
    assert pandas.read_csv(tmp_path / "latents.csv")["mean_square"].tolist() == table["mean_square"].tolist()


def test_the_summary_is_a_small_table() -> None:
    lines = repr(latents(make("atomic"))).splitlines()
    assert lines[0] == "LatentTable of 24 latents"
    assert lines[1].split() == ["index", *GEOMETRY_COLUMNS]
    assert [line.split()[0] for line in lines[2:7]] == ["0", "1", "2", "3", "4"]
    assert lines[7:] == ["… 19 more"]
    assert all(len(line) < 140 for line in lines)
    assert "…" in repr(table_with_awkward_label())
    assert len(repr(table_with_awkward_label()).splitlines()) == 5


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = latents(one_latent_per_cluster())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"needs pandas; install it with: pip install 'quadric\[tables\]'"):
        table.to_pandas()
    table.to_csv(tmp_path / "needs nothing.csv")


def test_mistakes_are_named() -> None:
    table = latents(one_latent_per_cluster())
    with pytest.raises(KeyError, match="no column 'label'; give evidence= to latents"):
        _ = table["label"]
    with pytest.raises(KeyError, match="no column 'rank'; there are index, shape"):
        _ = table["rank"]
    with pytest.raises(ValueError, match="evidence is about other weights"):
        latents(make("atomic"), EVIDENCE)
