"""What a report says of hand-built latents."""

import json

import pytest
import torch

from quadric import TopKAutoencoder
from quadric.reports.run_report import histogram, quantiles, readable_bits, report_on
from tests.geometry.examples import by_hand, planted_shapes, trained


def test_a_report_on_planted_shapes():
    report = report_on("planted", planted_shapes())
    assert report.shape_counts() == {"slab": 1, "ellipsoid": 3, "hyperboloid": 1, "empty": 1}
    assert report.most_important(3) == [5, 3, 0]
    assert report.architecture["d_model"] == 12
    quantile = report.summary()["quantiles"]["effective_rank"]
    assert (quantile["min"], quantile["max"]) == pytest.approx((1, 3))
    assert report.captured_curve()[-1] == pytest.approx(1)


def test_everything_is_plain_and_finite():
    values = json.loads(json.dumps(report_on("run", trained("quadratic")).as_json(), allow_nan=False))
    assert values["run"] == "run"
    assert values["tolerance"] == 1e-3
    assert len(values["latents"]["bits"]) == 20
    assert set(values["latents"]["shape"]) <= {"slab", "ellipsoid", "hyperboloid", "empty"}


def test_coarser_tolerances_are_reported_too():
    ae = by_hand(torch.eye(3)[:2], torch.eye(3)[:2], torch.tensor([[1.0, -0.05]]))
    counts = report_on("run", ae).shape_counts_by_tolerance()
    assert [(tolerance, counts[tolerance]["hyperboloid"]) for tolerance in counts] == [(1e-3, 1), (0.01, 1), (0.1, 0)]
    assert list(report_on("run", ae, tolerance=0.05).shape_counts_by_tolerance()) == [0.05, 0.1]


def test_a_report_on_nothing():
    ae = by_hand(torch.zeros(2, 3), torch.zeros(2, 3), torch.eye(2))
    report = report_on("nothing", ae)
    assert report.shape_counts()["empty"] == 2
    assert report.summary()["quantiles"]["support"] == {}


def test_a_linear_baseline_is_refused():
    with pytest.raises(ValueError, match="'topk' autoencoder has directions"):
        report_on("run", TopKAutoencoder(d_model=4, n_latents=8, n_active=2))


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
