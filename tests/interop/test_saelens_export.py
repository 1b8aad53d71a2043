"""The files for SAELens, read back without SAELens: by hand, and by Quadric's own reader."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import quadric
from quadric.interop.saelens_format import load_lines, saelens_files, write_saelens
from quadric.model import BatchTopKAutoencoder
from tests.interop.dictionaries import AFFINE, BILINEAR, D_MODEL, LINEAR, bilinear, linear, tokens


@pytest.mark.parametrize("variety", BILINEAR)
def test_a_bilinear_dictionary_is_stored_whole(variety: str, tmp_path: Path) -> None:
    autoencoder = bilinear(variety)
    write_saelens(tmp_path, autoencoder)
    config = json.loads((tmp_path / "cfg.json").read_text())
    tensors = load_file(tmp_path / "sae_weights.safetensors")
    assert (config["architecture"], config["d_in"], config["d_sae"]) == ("quadric", 12, autoencoder.n_latents)
    assert config["metadata"]["hook_name"] == "blocks.3.hook_resid_pre"
    assert config["metadata"]["model_name"] == "owner/small"
    own = {name: tensors[name] for name in autoencoder.tensors()}
    again = autoencoder.settings.restore(autoencoder.d_model, own)
    x = tokens(6)
    torch.testing.assert_close(again.encode(x), autoencoder.encode(x), rtol=1e-6, atol=1e-7)
    assert tensors.keys() - own.keys() == ({"W_dec", "b_dec"} if variety in AFFINE else set())


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_dictionary_comes_back_through_quadrics_own_reader(name: str, tmp_path: Path) -> None:
    autoencoder, x = linear(name), tokens(40)
    write_saelens(tmp_path, autoencoder)
    again = quadric.load(tmp_path)
    torch.testing.assert_close(
        again.encode(again.prepare(x)), autoencoder.encode(autoencoder.prepare(x)), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(again.rebuild(x), autoencoder.rebuild(x), rtol=1e-5, atol=1e-5)
    assert again.provenance.hook_point == "resid_pre.3"


def test_weights_for_unit_tokens_are_folded_for_norm_root_d() -> None:
    autoencoder, x = linear("topk"), tokens(30)
    _, tensors = saelens_files(autoencoder)
    scaled = x * math.sqrt(D_MODEL) / x.norm(dim=-1, keepdim=True)
    before = (scaled - tensors["b_dec"]) @ tensors["W_enc"] + tensors["b_enc"]
    values, indices = before.relu().topk(5)
    latents = torch.zeros_like(before).scatter(-1, indices, values)
    torch.testing.assert_close(latents, autoencoder.encode(autoencoder.prepare(x)), rtol=1e-5, atol=1e-6)
    back = (latents @ tensors["W_dec"] + tensors["b_dec"]) * x.norm(dim=-1, keepdim=True) / math.sqrt(D_MODEL)
    torch.testing.assert_close(back, autoencoder.rebuild(x), rtol=1e-5, atol=1e-5)


def test_a_value_exactly_at_batch_topks_threshold_is_kept() -> None:
    threshold = saelens_files(linear("batch_topk")).tensors["threshold"]
    exact = torch.tensor(0.2)
    assert (exact > threshold).all()
    assert not (torch.nextafter(exact, torch.tensor(0.0)) > threshold).any()


def test_a_batch_topk_without_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="has no threshold yet"):
        saelens_files(BatchTopKAutoencoder(d_model=4, n_latents=8, n_active=2))


def test_the_name_of_the_model_can_be_given() -> None:
    assert saelens_files(linear("topk"), model_name="gpt2-small").config["metadata"]["model_name"] == "gpt2-small"


def test_only_bilinear_dictionaries_need_quadric_to_load() -> None:
    assert "quadric" in load_lines(Path("out"), bilinear("atomic"))
    assert load_lines(Path("out"), linear("topk")) == "from sae_lens import SAE\nsae = SAE.load_from_disk('out')"
