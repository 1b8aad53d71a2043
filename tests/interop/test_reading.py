"""Which library wrote a folder, in one fixed order, and folders of folders."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

import quadric
from quadric.interop.reading import is_dictionary, read_dictionary
from quadric.run.folder import load_all
from tests.interop.foreign_folders import (
    D,
    product_space,
    saelens_tensors,
    tokens,
    topk,
    write_published,
    write_saelens,
    write_sparsify,
)


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


# The paper's checkpoints, by files of their layout made here: latents and error as the authors' code has them.


H, LATENTS = 3 * D, 20


def down(density: float) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(LATENTS, H, generator=generator)
    return weight * (torch.rand(LATENTS, H, generator=generator) < density)


def printed(folder: Path, x: Tensor) -> tuple[Tensor, Tensor]:
    """Latents and errors in the order of the paper's pseudocode, on unit tokens."""
    weights = {name: tensor.double() for name, tensor in load_file(folder / "model.safetensors").items()}
    left, right = weights["left"], weights["right"]
    mixing = weights.get("down", torch.eye(len(left)).double())
    unit = x.double() / x.double().norm(dim=-1, keepdim=True)
    latents = ((unit @ left.T) * (unit @ right.T)) @ mixing.T
    kernel = mixing @ ((left @ left.T) * (right @ right.T)) @ mixing.T
    recons = torch.einsum("nh,nk,hk->n", latents, latents, kernel)
    return latents, recons - 2 * latents.square().sum(-1) + 1


@pytest.mark.parametrize(("mixing", "prior"), [(None, "atomic"), (1.0, "quadratic"), (0.05, "composite")])
def test_latents_and_error_are_those_of_the_pseudocode(mixing: float | None, prior: str, tmp_path: Path) -> None:
    folder, x = write_published(tmp_path / "ae", None if mixing is None else down(mixing)), tokens()
    ae = quadric.load(folder)
    latents, errors = printed(folder, x)
    assert isinstance(ae, quadric.BilinearAutoencoder)
    assert ae.prior == prior
    assert_close(ae.encode(ae.prepare(x)).double(), latents, rtol=1e-4, atol=1e-4)
    assert_close(ae.error(x).double(), errors, rtol=1e-3, atol=1e-3)


def test_the_layer_and_the_base_model_are_recorded(tmp_path: Path) -> None:
    found = quadric.load(write_published(tmp_path / "ae", base="qwen3-0.6b-base")).provenance
    assert (found.model, found.hook_point) == ("qwen3-0.6b-base", "resid_pre.7")


def test_it_saves_and_evaluates_like_our_own(tmp_path: Path) -> None:
    ae, x = quadric.load(write_published(tmp_path / "ae", down(0.05))), tokens()
    ae.save_pretrained(tmp_path / "again")
    assert torch.equal(quadric.load(tmp_path / "again").encode(x), ae.encode(x))
    assert quadric.evaluate(ae, x, progress=False).error == pytest.approx(ae.error(x).mean().item(), rel=1e-5)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no width": ({"d_model": None}, "d_model is None; expected a whole number"),
    "other width": ({"d_model": 13}, r"'left' in .* has shape \(36, 12\), but .* \(39, 13\)"),
    "no expansion": ({"expansion": 0}, "expansion is 0; expected a number over 0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    settings, message = REFUSED[fault]
    folder = write_published(tmp_path / "ae", **settings)
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.load(folder)
    assert "\n" not in str(refusal.value)


def test_a_language_model_is_told_from_a_dictionary(tmp_path: Path) -> None:
    folder = write_published(tmp_path / "lm")
    (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": 12}')
    with pytest.raises(ValueError, match="give the folder of a dictionary, not of a language model"):
        quadric.load(folder)


# Folders of sparsify give the latents and reconstructions that its formulas give, written out here.


def test_latents_and_reconstructions(tmp_path: Path) -> None:
    folder, x = write_sparsify(tmp_path / "layers.3"), tokens()
    weights = load_file(folder / "sae.safetensors")
    latents = topk((x - weights["b_dec"]) @ weights["encoder.weight"].T + weights["encoder.bias"], 5)
    rebuilt = latents @ weights["W_dec"] + weights["b_dec"]
    ae = quadric.load(folder)
    assert_close(ae.encode(ae.prepare(x)), latents, rtol=1e-5, atol=1e-3)
    assert_close(ae.rebuild(x), rebuilt, rtol=1e-5, atol=1e-3)
    assert_close(ae.error(x).double(), product_space(x, rebuilt), rtol=1e-4, atol=1e-4)


def test_the_folders_name_is_the_output_of_a_module(tmp_path: Path) -> None:
    assert quadric.load(write_sparsify(tmp_path / "layers.3")).provenance.hook_point == "resid_pre.4"
    assert quadric.load(write_sparsify(tmp_path / "layers.3.mlp")).provenance.hook_point == "mlp_out.3"
    assert quadric.load(write_sparsify(tmp_path / "mine")).provenance.hook_point is None


def test_the_model_is_in_the_config_of_the_training_run(tmp_path: Path) -> None:
    folder = write_sparsify(tmp_path / "run" / "layers.3")
    assert quadric.load(folder).provenance.model is None
    (tmp_path / "run" / "config.json").write_text(json.dumps({"model": "org/model"}))
    assert quadric.load(folder).provenance.model == "org/model"


UNREAD: dict[str, tuple[dict[str, Any], str]] = {
    "transcoder": ({"transcode": True}, "transcode is True, and a transcoder rebuilds another place"),
    "skip": ({"skip_connection": True}, "skip_connection is True, and a skip connection"),
    "signed": ({"signed": True}, "signed is True, and its latents have a sign"),
    "other activation": ({"activation": "groupmax"}, "activation 'groupmax' is not read"),
    "unknown setting": ({"moon": 3}, "moon is 3, and Quadric does not know what it changes"),
    "other size": ({"num_latents": 41}, r"'encoder.weight' in .* has shape \(40, 12\), but .* \(41, 12\)"),
    "other expansion": ({"num_latents": 0}, r"has shape \(40, 12\), but .* \(384, 12\)"),
    "no width": ({"d_in": 0}, "d_in is 0; expected a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("fault", UNREAD)
def test_what_is_not_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    settings, message = UNREAD[fault]
    folder = write_sparsify(tmp_path / "sae", **settings)
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.load(folder)
    assert "\n" not in str(refusal.value)


def test_settings_that_are_off_do_not_matter(tmp_path: Path) -> None:
    assert quadric.load(write_sparsify(tmp_path / "sae", signed=False, transcode=False, new=None)).n_active == 5
