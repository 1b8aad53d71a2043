"""A folder that SAELens saved gives SAELens's own latents and reconstructions."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import quadric
from tests.interop.real_packages.real import real_package

sae_lens = real_package("sae_lens")
pytestmark = pytest.mark.filterwarnings("ignore")

D, K = 24, 96
INPUTS = ("none", "constant_norm_rescale", "layer_norm")
VARIETIES: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("StandardSAE", {}),
    "topk": ("TopKSAE", {"k": 7}),
    "topk, latents in units of the decoder": ("TopKSAE", {"k": 7, "rescale_acts_by_decoder_norm": True}),
    "jumprelu": ("JumpReLUSAE", {}),
}


def tokens(n: int = 200) -> Tensor:
    """Activations as a language model has them: a large mean, lengths that differ, none of them one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, D, generator=generator) + 4 * torch.randn(D, generator=generator)
    return x * torch.linspace(2, 40, n)[:, None]


def made(variety: str, **settings: Any) -> Any:
    """A dictionary of SAELens with nothing at its initial value."""
    name, own = VARIETIES[variety]
    sae = getattr(sae_lens, name)(getattr(sae_lens, f"{name}Config")(d_in=D, d_sae=K, **own, **settings))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in sae.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        if variety == "jumprelu":
            sae.threshold.copy_(5 * torch.rand(K, generator=generator))
    return sae


def assert_same(sae: Any, folder: Path) -> quadric.model.LinearAutoencoder:
    sae.save_model(folder)
    ae, x = quadric.load(folder), tokens()
    with torch.no_grad():
        latents, reconstruction = sae.encode(x), sae(x)
        assert 0 < (latents != 0).float().mean() < 1
        assert_close(ae.encode(ae.prepare(x)), latents, rtol=1e-5, atol=1e-5 * float(latents.max()))
        assert_close(ae.rebuild(x), reconstruction, rtol=1e-5, atol=1e-5 * float(reconstruction.abs().max()))
        relative = (reconstruction - x).square().sum(-1) / x.square().sum(-1)
        size = reconstruction.square().sum(-1) / x.square().sum(-1)
        along = (x * reconstruction).sum(-1) / x.square().sum(-1)
        assert relative.isfinite().all()
        exact = 1 + size.double() ** 2 - 2 * along.double() ** 2
        assert_close(ae.error(x).double(), exact, rtol=1e-4, atol=1e-4)
    return ae


@pytest.mark.parametrize("subtract", [True, False])
@pytest.mark.parametrize("normalize", INPUTS)
@pytest.mark.parametrize("variety", VARIETIES)
def test_latents_and_reconstructions_are_those_of_saelens(
    variety: str, normalize: str, subtract: bool, tmp_path: Path
) -> None:
    sae = made(variety, normalize_activations=normalize, apply_b_dec_to_input=subtract)
    assert_same(sae, tmp_path / "sae")


def test_metadata_becomes_provenance(tmp_path: Path) -> None:
    about = sae_lens.saes.sae.SAEMetadata(model_name="org/model", hook_name="blocks.8.hook_resid_post")
    ae = assert_same(made("topk", metadata=about), tmp_path / "sae")
    assert (ae.provenance.model, ae.provenance.hook_point) == ("org/model", "resid_pre.9")


def test_batch_topk_is_saved_as_jumprelu_and_read_as_it(tmp_path: Path) -> None:
    settings = sae_lens.BatchTopKTrainingSAEConfig(d_in=D, d_sae=K, k=6)
    training = sae_lens.BatchTopKTrainingSAE(settings)
    with torch.no_grad():
        training.b_enc.normal_(generator=torch.Generator().manual_seed(2))
        training.b_dec.normal_(generator=torch.Generator().manual_seed(3))
        training.topk_threshold.fill_(1.5)
    training.save_inference_model(tmp_path / "trained")
    sae, ae, x = sae_lens.SAE.load_from_disk(tmp_path / "trained"), quadric.load(tmp_path / "trained"), tokens()
    assert ae.kind == "jumprelu"
    assert_close(ae.encode(x), sae.encode(x), rtol=1e-5, atol=1e-3)
    training.save_model(tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="checkpoint of training; save it with save_inference_model"):
        quadric.load(tmp_path / "checkpoint")


def test_the_constant_of_unfinished_training_is_read_from_beside_the_checkpoint(tmp_path: Path) -> None:
    from sae_lens.training.activation_scaler import ActivationScaler

    sae, x, constant = made("topk", normalize_activations="expected_average_only_in"), tokens(), 0.037
    sae.save_model(tmp_path / "sae")
    with pytest.raises(ValueError, match="its constant is not in the folder"):
        quadric.load(tmp_path / "sae")
    ActivationScaler(constant).save(str(tmp_path / "sae" / "activation_scaler.json"))
    ae = quadric.load(tmp_path / "sae")
    with torch.no_grad():
        latents = sae.encode(constant * x)
        assert_close(ae.encode(x), latents, rtol=1e-5, atol=1e-4)
        assert_close(ae.rebuild(x), sae.decode(latents) / constant, rtol=1e-4, atol=1e-2)
        sae.fold_activation_norm_scaling_factor(constant)
    assert_same(sae, tmp_path / "folded")


def test_the_remedy_for_a_gated_dictionary_is_the_same_function(tmp_path: Path) -> None:
    sae = sae_lens.GatedSAE(sae_lens.GatedSAEConfig(d_in=D, d_sae=K))
    with torch.no_grad():
        for parameter in sae.parameters():
            parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(4))
    sae.save_model(tmp_path / "sae")
    with pytest.raises(ValueError, match="'gated' is not read: its gate makes it a JumpReLU"):
        quadric.load(tmp_path / "sae")
    with torch.no_grad():
        ae = quadric.linear_dictionary(
            encoder=(sae.W_enc * sae.r_mag.exp()).T,
            encoder_bias=sae.b_mag,
            threshold=sae.b_mag - sae.r_mag.exp() * sae.b_gate,
            decoder=sae.W_dec,
            decoder_bias=sae.b_dec,
        )
        x = tokens()
        assert_close(ae.encode(x), sae.encode(x), rtol=1e-4, atol=1e-3)
        assert_close(ae.rebuild(x), sae(x), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", ["TranscoderConfig", "SkipTranscoderConfig", "JumpReLUTranscoderConfig"])
def test_transcoders_are_refused_by_name(name: str, tmp_path: Path) -> None:
    settings = getattr(sae_lens, name)(d_in=D, d_sae=K, d_out=D, apply_b_dec_to_input=False)
    getattr(sae_lens, name.removesuffix("Config"))(settings).save_model(tmp_path / "sae")
    with pytest.raises(ValueError, match=f"a '{settings.architecture()}' rebuilds another place of the model"):
        quadric.load(tmp_path / "sae")
