"""A run's dictionaries are found by name; its geometry is computed once, kept in its folder, and used by reports."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
import torch

import quadric
from quadric import BilinearAutoencoder
from quadric.cli import main
from quadric.geometry import DictionaryGeometry, statistics
from quadric.run.folder import autoencoder_folders, geometry_folder, geometry_of_run, known_geometry
from quadric.studies.reports.run_report import report_on


@pytest.fixture
def run(tmp_path):
    for seed in (0, 1):
        made = quadric.BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=seed)
        made.save_pretrained(tmp_path / "run" / "autoencoders" / f"seed{seed}")
    return tmp_path / "run"


def test_an_autoencoder_of_a_run_is_loaded_by_name(run):
    loaded = quadric.load(run, name="seed1")
    assert torch.equal(loaded.left, quadric.load(run / "autoencoders" / "seed1").left)


@pytest.mark.parametrize("name", [None, "seed2"])
def test_a_missing_or_wrong_name_lists_the_choices(run, name):
    with pytest.raises(ValueError, match="seed0, seed1"):
        quadric.load(run, name=name)


def test_the_name_is_optional_if_there_is_one_autoencoder(run):
    (run / "autoencoders" / "seed1" / "config.json").unlink()
    assert quadric.load(run).seed == 0


def test_a_run_without_autoencoders_is_an_error_with_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config.json in .*; expected a run, a folder made by"):
        quadric.load(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="--resume"):
        quadric.load(tmp_path)


def test_an_empty_folder_holds_no_autoencoder_whatever_its_name(tmp_path):
    assert autoencoder_folders(tmp_path) == {}


def test_a_folder_of_one_autoencoder_counts_as_a_run(run):
    alone = run / "autoencoders" / "seed0"
    assert autoencoder_folders(alone) == {"seed0": alone}


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
