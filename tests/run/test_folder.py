import pytest
import torch

import quadric
from quadric.run.folder import autoencoder_folders


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
