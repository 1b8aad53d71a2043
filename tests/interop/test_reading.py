"""Which library wrote a folder, in one fixed order, and folders of folders."""

import json
from pathlib import Path

import pytest

import quadric
from quadric.interop.reading import is_dictionary, read_dictionary
from quadric.run.folder import load_all
from tests.interop.foreign_folders import saelens_tensors, write_published, write_saelens, write_sparsify


def test_every_layout_is_told_by_its_files(tmp_path: Path) -> None:
    write_saelens(tmp_path / "saelens", saelens_tensors(), architecture="standard")
    write_sparsify(tmp_path / "sparsify")
    write_published(tmp_path / "published")
    quadric.BatchTopKAutoencoder(d_model=4, n_latents=8, n_active=2).save_pretrained(tmp_path / "ours")
    kinds = {"saelens": "relu", "sparsify": "topk", "published": "atomic", "ours": "batch_topk"}
    for name, kind in kinds.items():
        assert is_dictionary(tmp_path / name)
        assert read_dictionary(tmp_path / name).kind == quadric.load(tmp_path / name).kind == kind
    assert not is_dictionary(tmp_path)
    assert [each.name for each in load_all([str(tmp_path)])] == ["published", "saelens", "sparsify"]


def test_a_folder_of_folders_says_which_to_choose(tmp_path: Path) -> None:
    for layer in (3, 6):
        write_sparsify(tmp_path / "run" / f"layers.{layer}")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"model": "org/model"}))
    with pytest.raises(ValueError, match=r"holds 2 autoencoders: layers\.3, layers\.6; choose one with --name"):
        quadric.load(tmp_path / "run")
    assert quadric.load(tmp_path / "run", name="layers.6").provenance.hook_point == "resid_pre.7"


def test_a_config_without_weights_says_what_is_missing(tmp_path: Path) -> None:
    folder = write_sparsify(tmp_path / "sae")
    (folder / "sae.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"has a cfg.json but no weights; copy or download sae_weights"):
        quadric.load(folder)
    with pytest.raises(FileNotFoundError, match=r"has a cfg.json but no weights"):
        read_dictionary(folder)


def test_an_empty_folder_names_what_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a run, a folder made by save_pretrained, or one of SAELens"):
        quadric.load(tmp_path)
