"""The geometry of a run is computed once, kept in its folder, and used by reports."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.cli import main
from quadric.geometry import DictionaryGeometry, statistics
from quadric.run.evidence import geometry_of_run, known_geometry
from quadric.run.folder import geometry_folder
from quadric.studies.reports.run_report import report_on


@pytest.fixture
def autoencoder(tmp_path: Path) -> BilinearAutoencoder:
    ae = BilinearAutoencoder(d_model=8, n_latents=12, n_hidden=20, prior="composite", mixing_density=0.2, seed=1)
    ae.save_pretrained(tmp_path / "run/autoencoders/small")
    return ae


def test_geometry_is_kept_in_the_run_and_found_again(autoencoder: BilinearAutoencoder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert known_geometry(run, autoencoder) is None
    told: list[int] = []

    def tell(what: str, done: int, total: int, words: str) -> None:
        told.append(done)

    first = geometry_of_run(run, "small", autoencoder, tell)
    assert told[-1] == 2 * autoencoder.n_latents
    told.clear()
    assert (geometry_folder(run, "small") / "geometry.json").is_file()
    for found in (geometry_of_run(run, "small", autoencoder, tell), known_geometry(str(run), autoencoder)):
        assert isinstance(found, DictionaryGeometry)
        assert torch.equal(found.axes, first.axes)
    assert not told


def test_a_geometry_about_the_tokens_is_found_by_whoever_knows_no_centre(
    autoencoder: BilinearAutoencoder, tmp_path: Path
) -> None:
    centre = torch.full((8,), 0.2)
    kept = geometry_of_run(tmp_path / "run", "small", autoencoder, moments=centre)
    found = known_geometry(tmp_path / "run", autoencoder)
    assert found is not None
    assert torch.equal(found.eigenvalues, kept.eigenvalues)
    assert found.centre is not None
    assert torch.equal(found.centre.mean, centre)


def test_a_moved_run_keeps_its_geometry_and_a_hub_id_has_none(autoencoder: BilinearAutoencoder, tmp_path: Path) -> None:
    geometry_of_run(tmp_path / "run", "small", autoencoder)
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert known_geometry(tmp_path / "moved", autoencoder) is not None
    assert known_geometry("owner/name", autoencoder) is None


def test_reports_from_known_geometry_are_the_same(
    autoencoder: BilinearAutoencoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    geometry = geometry_of_run(run, "small", autoencoder)
    fresh = report_on(str(run), autoencoder)
    known = report_on(str(run), autoencoder, geometry=geometry)
    assert known.shape_counts() == fresh.shape_counts()
    assert known.most_important(12) == fresh.most_important(12)
    torch.testing.assert_close(known.latents.eigenvalues, statistics(autoencoder).eigenvalues, rtol=1e-12, atol=1e-14)
    assert repr(known).startswith(f"RunReport({run}: LatentStatistics(12 latents")
    module = import_module("quadric.geometry.statistics")  # the package's attribute is the function
    monkeypatch.setattr(module, "decompose", lambda *_, **__: pytest.fail("the latents were decomposed again"))
    assert main(["report", str(run), "--json"]) == 0
