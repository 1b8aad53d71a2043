"""Folders of SAELens give the latents and reconstructions that SAELens's formulas give, written out here."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.testing import assert_close

import quadric
from quadric.model import Provenance
from quadric.model.storage import weights_sha256
from tests.interop.foreign_folders import D, K, product_space, saelens_tensors, tokens, topk, write_saelens

NORMALIZATIONS = ("none", "constant_norm_rescale", "layer_norm")


class Scaled:
    """What SAELens does before the encoder and after the decoder."""

    def __init__(self, normalize: str, x: Tensor) -> None:
        self.factor, self.shift = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        self.read = x
        if normalize == "constant_norm_rescale":
            self.factor = x.norm(dim=-1, keepdim=True) / D**0.5
            self.read = x / self.factor
        if normalize == "layer_norm":
            self.shift, self.factor = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
            self.read = (x - self.shift) / (self.factor + 1e-5)


def assert_computes(folder: Path, x: Tensor, latents: Tensor, reconstruction: Tensor) -> None:
    ae = quadric.load(folder)
    assert 0 < (latents != 0).float().mean() < 1
    assert_close(ae.encode(ae.prepare(x)), latents, rtol=1e-5, atol=1e-5 * float(latents.max()))
    assert_close(ae.rebuild(x), reconstruction, rtol=1e-5, atol=1e-5 * float(reconstruction.abs().max()))
    assert_close(ae.error(x).double(), product_space(x, reconstruction), rtol=1e-4, atol=1e-4)
    assert not ae.training


@pytest.mark.parametrize("subtract", [True, False])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("architecture", ["standard", "topk", "jumprelu"])
def test_latents_and_reconstructions(architecture: str, normalize: str, subtract: bool, tmp_path: Path) -> None:
    weights, x = saelens_tensors(*(["threshold"] if architecture == "jumprelu" else [])), tokens()
    settings = {"architecture": architecture, "normalize_activations": normalize, "apply_b_dec_to_input": subtract}
    folder = write_saelens(tmp_path / "sae", weights, **settings, **({"k": 5} if architecture == "topk" else {}))
    scaled = Scaled(normalize, x)
    pre = (scaled.read - subtract * weights["b_dec"]) @ weights["W_enc"] + weights["b_enc"]
    latents = topk(pre, 5) if architecture == "topk" else torch.relu(pre)
    if architecture == "jumprelu":
        latents = torch.where(pre > weights["threshold"], latents, 0)
    rebuilt = (latents @ weights["W_dec"] + weights["b_dec"]) * scaled.factor + scaled.shift
    assert_computes(folder, x, latents, rebuilt)


def test_topk_in_units_of_the_decoder_chooses_by_them(tmp_path: Path) -> None:
    weights, x = saelens_tensors(), tokens()
    weights["W_dec"] *= torch.linspace(0.1, 10, K)[:, None]
    folder = write_saelens(tmp_path / "sae", weights, architecture="topk", k=5, rescale_acts_by_decoder_norm=True)
    norms = weights["W_dec"].norm(dim=-1)
    latents = topk(((x - weights["b_dec"]) @ weights["W_enc"] + weights["b_enc"]) * norms, 5)
    assert_computes(folder, x, latents, (latents / norms) @ weights["W_dec"] + weights["b_dec"])


def test_configs_of_versions_3_to_5_are_flat(tmp_path: Path) -> None:
    """There TopK is an activation function, and the names of the model and the hook are in the config itself."""
    weights, x = saelens_tensors("scaling_factor"), tokens()
    old = {"activation_fn_str": "topk", "activation_fn_kwargs": {"k": 5}, "model_name": "gpt2-small"}
    old |= {"hook_name": "blocks.8.hook_resid_pre", "finetuning_scaling_factor": True, "sae_lens_version": "5.3.0"}
    folder = write_saelens(tmp_path / "sae", weights, architecture="standard", **old)
    latents = topk((x - weights["b_dec"]) @ weights["W_enc"] + weights["b_enc"], 5)
    rebuilt = (latents * weights["scaling_factor"]) @ weights["W_dec"] + weights["b_dec"]
    assert_computes(folder, x, latents, rebuilt)
    ae = quadric.load(folder)
    assert (ae.kind, ae.provenance.model, ae.provenance.hook_point) == ("topk", "gpt2-small", "resid_pre.8")


def test_the_constant_of_an_unfinished_training_is_folded_in(tmp_path: Path) -> None:
    weights, x, constant = saelens_tensors(), tokens(), 0.05
    settings = {"architecture": "topk", "k": 5, "normalize_activations": "expected_average_only_in"}
    folder = write_saelens(tmp_path / "sae", weights, **settings)
    with pytest.raises(ValueError, match=r"its constant is not in the folder; call sae.fold_activation_norm_scaling"):
        quadric.load(folder)
    (folder / "activation_scaler.json").write_text(json.dumps({"scaling_factor": constant}))
    latents = topk((constant * x - weights["b_dec"]) @ weights["W_enc"] + weights["b_enc"], 5)
    assert_computes(folder, x, latents, (latents @ weights["W_dec"] + weights["b_dec"]) / constant)


def test_metadata_becomes_provenance(tmp_path: Path) -> None:
    about = {"model_name": "org/model", "hook_name": "blocks.3.hook_mlp_out"}
    folder = write_saelens(tmp_path / "sae", saelens_tensors(), architecture="standard", metadata=about)
    found = quadric.load(folder).provenance
    assert (found.model, found.hook_point, found.normalisation) == ("org/model", "mlp_out.3", "none")


def test_half_precision_weights_are_added_up_in_float32(tmp_path: Path) -> None:
    weights = {name: tensor.bfloat16() for name, tensor in saelens_tensors().items()}
    ae = quadric.load(write_saelens(tmp_path / "sae", weights, architecture="standard"))
    assert torch.equal(ae.decoder, weights["W_dec"].float())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "gated": ({"architecture": "gated"}, r"'gated' is not read: its gate makes it a JumpReLU.*linear_dictionary\("),
    "a transcoder": ({"architecture": "skip_transcoder"}, "a 'skip_transcoder' rebuilds another place of the model"),
    "a crosscoder": ({"architecture": "crosscoder"}, "a 'crosscoder' rebuilds another place"),
    "a checkpoint": ({"architecture": "batchtopk"}, "checkpoint of training; save it with save_inference_model"),
    "ours, without its settings": ({"architecture": "quadric"}, "quadric in .* does not describe a dictionary by kind"),
    "unknown": ({"architecture": "cubic"}, "'cubic' is not read: Quadric reads standard, topk, jumprelu; give its"),
    "not a name": ({"architecture": 3}, "architecture 3 is not read"),
    "activation": ({"architecture": "standard", "activation_fn": "tanh-relu"}, "activation_fn 'tanh-relu' is not read"),
    "whitening": ({"architecture": "topk", "k": 5, "normalize_activations": "covariance_whitening"}, "is not read; "),
    "no k": ({"architecture": "topk"}, "k is None; expected a whole number"),
    "k too large": ({"architecture": "topk", "k": 41}, "n_active=41 exceeds n_latents=40"),
    "no width": ({"architecture": "standard", "d_in": None}, "d_in is None; expected a whole number"),
    "other width": ({"architecture": "standard", "d_in": 13}, r"has shape \(.*\), but its config says \(.*13.*\)"),
    "switch": ({"architecture": "standard", "apply_b_dec_to_input": "yes"}, "is 'yes'; expected true or false"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_not_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    settings, message = REFUSED[fault]
    folder = write_saelens(tmp_path / "sae", saelens_tensors(), **settings)
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.load(folder)
    assert "\n" not in str(refusal.value)


WEIGHTS = {
    "missing bias": (lambda t: t.pop("b_dec"), "lacks b_dec; save the dictionary again, or give its tensors to quad"),
    "one too many": (lambda t: t.update(W_skip=torch.zeros(D, D)), "holds W_skip beside W_enc, W_dec, b_enc, b_dec"),
    "not finite": (lambda t: t["b_enc"].fill_(torch.nan), "'b_enc' in .* is not a tensor of finite numbers"),
    "whole numbers": (lambda t: t.update(b_enc=torch.ones(K).long()), "'b_enc' in .* is not a tensor of finite"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WEIGHTS)
def test_faulty_weights_are_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    change, message = WEIGHTS[fault]
    weights = saelens_tensors()
    change(weights)
    folder = write_saelens(tmp_path / "sae", weights, architecture="standard")
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.load(folder)
    assert "\n" not in str(refusal.value)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = write_saelens(tmp_path / "sae", saelens_tensors(), architecture="standard")
    (folder / "sae_weights.safetensors").write_bytes(b"not a tensor")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        quadric.load(folder)
    save_file(saelens_tensors(), folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"is \[1\]; expected an object"):
        quadric.load(folder)


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
@pytest.mark.parametrize("lens", ["affine", "paper"])
def test_an_exported_bilinear_dictionary_is_read_back(prior: str, lens: str, tmp_path: Path) -> None:
    x = torch.randn(200, 12) + 1
    ae = quadric.fit(x, n_latents=10, prior=prior, lens=lens, steps=3, progress=False)
    ae.provenance = Provenance(model="org/model", hook_point="resid_pre.3")
    quadric.export(ae, to="saelens", out=tmp_path / "sae", progress=False)
    found = quadric.load(tmp_path / "sae")
    assert weights_sha256(found) == weights_sha256(ae)
    assert (found.provenance.model, found.provenance.hook_point) == ("org/model", "resid_pre.3")
    torch.testing.assert_close(found.encode(x), ae.eval().encode(x))
