"""Folders of sparsify give the latents and reconstructions that its formulas give, written out here."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

import quadric
from tests.interop.foreign_folders import product_space, tokens, topk, write_sparsify


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


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "transcoder": ({"transcode": True}, "transcode is True, and a transcoder rebuilds another place"),
    "skip": ({"skip_connection": True}, "skip_connection is True, and a skip connection"),
    "signed": ({"signed": True}, "signed is True, and its latents have a sign"),
    "other activation": ({"activation": "groupmax"}, "activation 'groupmax' is not read"),
    "unknown setting": ({"moon": 3}, "moon is 3, and Quadric does not know what it changes"),
    "other size": ({"num_latents": 41}, r"'encoder.weight' in .* has shape \(40, 12\), but .* \(41, 12\)"),
    "other expansion": ({"num_latents": 0}, r"has shape \(40, 12\), but .* \(384, 12\)"),
    "no width": ({"d_in": 0}, "d_in is 0; expected a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_not_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    settings, message = REFUSED[fault]
    folder = write_sparsify(tmp_path / "sae", **settings)
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.load(folder)
    assert "\n" not in str(refusal.value)


def test_settings_that_are_off_do_not_matter(tmp_path: Path) -> None:
    assert quadric.load(write_sparsify(tmp_path / "sae", signed=False, transcode=False, new=None)).n_active == 5
