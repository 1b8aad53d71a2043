"""SAELens loads and runs exported dictionaries, and dictionaries of SAELens survive the way through Quadric."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import quadric
from quadric.model import Autoencoder, BilinearAutoencoder
from tests.interop.dictionaries import BILINEAR, D_MODEL, LINEAR, bilinear, linear, tokens
from tests.interop.real_packages.real import real_package

sae_lens = real_package("sae_lens")
registered = real_package("quadric.interop.saelens")
pytestmark = pytest.mark.filterwarnings("ignore")

SAE = sae_lens.SAE
CONFIGS = {
    "standard": sae_lens.StandardSAEConfig,
    "topk": sae_lens.TopKSAEConfig,
    "jumprelu": sae_lens.JumpReLUSAEConfig,
}


def exported(autoencoder: Autoencoder, folder: Path) -> Any:
    quadric.export(autoencoder, to="saelens", out=folder)
    return SAE.load_from_disk(folder)


@pytest.mark.parametrize("variety", [*BILINEAR, "atomic same factors", "composite dense storage", "quadratic affine"])
def test_saelens_runs_a_bilinear_dictionary(variety: str, tmp_path: Path) -> None:
    autoencoder, x = bilinear(variety), tokens(3, 5)
    sae, flat = exported(autoencoder, tmp_path / "out"), x.flatten(0, 1)
    assert isinstance(sae, registered.QuadricSAE)
    latents = sae.encode(x)
    torch.testing.assert_close(
        latents.flatten(0, 1), autoencoder.encode(autoencoder.prepare(flat)), atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(sae.decode(latents).flatten(0, 1), autoencoder.rebuild(flat), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sae(x).flatten(0, 1), autoencoder.rebuild(flat), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LINEAR)
def test_saelens_runs_a_linear_dictionary(name: str, tmp_path: Path) -> None:
    autoencoder, x = linear(name), tokens(40)
    sae = exported(autoencoder, tmp_path / "out")
    expected = autoencoder.encode(autoencoder.prepare(x))
    torch.testing.assert_close(sae.encode(x), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sae(x), autoencoder.rebuild(x), rtol=1e-5, atol=1e-5)


def test_a_linear_dictionary_needs_no_quadric(tmp_path: Path) -> None:
    quadric.export(linear("topk"), to="saelens", out=tmp_path / "out")
    program = (
        f"import sys; from sae_lens import SAE; sae = SAE.load_from_disk({str(tmp_path / 'out')!r}); "
        "assert 'quadric' not in sys.modules; print(sae.cfg.architecture())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "topk"


@pytest.mark.parametrize("architecture", CONFIGS)
@pytest.mark.parametrize("normalize", ["none", "constant_norm_rescale", "layer_norm"])
@pytest.mark.parametrize("subtracts", [True, False])
def test_saelens_to_quadric_to_saelens(architecture: str, normalize: str, subtracts: bool, tmp_path: Path) -> None:
    settings = {"k": 5} if architecture == "topk" else {}
    config = CONFIGS[architecture](
        d_in=D_MODEL, d_sae=20, normalize_activations=normalize, apply_b_dec_to_input=subtracts, **settings
    )
    before = SAE.get_sae_class_for_architecture(architecture)(config)
    generator = torch.Generator().manual_seed(1)
    for parameter in before.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    before.save_model(tmp_path / "before")
    after = exported(quadric.load(tmp_path / "before"), tmp_path / "after")
    x = tokens(50)
    assert after.cfg.architecture() == architecture
    torch.testing.assert_close(after.encode(x), before.encode(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after(x), before(x), rtol=1e-5, atol=1e-5)


def test_latents_are_found_in_a_language_model(tmp_path: Path) -> None:
    config = real_package("transformer_lens").HookedTransformerConfig(
        n_layers=4, d_model=D_MODEL, n_ctx=16, d_head=6, n_heads=2, d_mlp=24, d_vocab=50, act_fn="gelu", seed=0
    )
    model, autoencoder = sae_lens.HookedSAETransformer(config), bilinear("composite sparse affine")
    sae, words = exported(autoencoder, tmp_path / "out"), torch.arange(14).reshape(2, 7)
    hook = sae.cfg.metadata.hook_name
    _, plain = model.run_with_cache(words)
    logits, cache = model.run_with_cache_with_saes(words, saes=[sae])
    seen = plain[hook].flatten(0, 1)
    found = {name: cache[f"{hook}.hook_sae_{name}"].flatten(0, 1) for name in ("input", "acts_post", "recons")}
    torch.testing.assert_close(found["input"], seen)
    torch.testing.assert_close(found["acts_post"], autoencoder.encode(autoencoder.prepare(seen)), rtol=1e-4, atol=1e-6)
    lengths = seen.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(found["recons"] * lengths, autoencoder.rebuild(seen), rtol=1e-4, atol=1e-5)
    assert logits.isfinite().all()


def test_a_hook_that_changes_a_latent_changes_the_reconstruction_along_w_dec(tmp_path: Path) -> None:
    sae, x = exported(bilinear("atomic affine"), tmp_path / "out"), tokens(6)
    plain = sae(x)

    def raise_latent(latents: torch.Tensor, hook: object) -> torch.Tensor:
        latents[..., 3] += 0.5
        return latents

    moved = sae.run_with_hooks(x, fwd_hooks=[("hook_sae_acts_post", raise_latent)])
    torch.testing.assert_close(moved - plain, 0.5 * sae.W_dec[3] * x.norm(dim=-1, keepdim=True), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("variety", ["composite sparse affine", "quadratic"])
def test_what_saelens_saves_it_loads(variety: str, tmp_path: Path) -> None:
    sae, x = exported(bilinear(variety), tmp_path / "out"), tokens(6)
    sae.save_model(tmp_path / "again")
    torch.testing.assert_close(SAE.load_from_disk(tmp_path / "again")(x), sae(x), rtol=1e-6, atol=1e-6)


def test_decoding_without_encoding_is_refused(tmp_path: Path) -> None:
    sae, x = exported(bilinear("atomic affine"), tmp_path / "out"), tokens(6)
    latents = sae.encode(x)
    whole = sae.decode(latents)
    with pytest.raises(ValueError, match="decode was called without encode before it"):
        sae.decode(latents)
    unit = sae.decode_unit(latents)
    torch.testing.assert_close(unit * x.norm(dim=-1, keepdim=True), whole)
    raw = exported(bilinear("atomic"), tmp_path / "raw")
    with pytest.raises(ValueError, match="do not determine the sign"):
        raw.decode_unit(raw.encode(x))


def test_the_sign_without_a_lens_is_that_of_the_token(tmp_path: Path) -> None:
    sae, x = exported(bilinear("quadratic"), tmp_path / "out"), tokens(6)
    torch.testing.assert_close(sae(-x), -sae(x), rtol=1e-3, atol=1e-4)
    assert ((sae(x) * x).sum(-1) >= 0).all()


def test_weights_that_a_quadratic_latent_does_not_have_are_named(tmp_path: Path) -> None:
    affine = exported(bilinear("atomic affine"), tmp_path / "affine")
    with pytest.raises(AttributeError, match="a quadratic latent has no W_enc"):
        affine.W_enc  # noqa: B018
    with pytest.raises(NotImplementedError):
        affine.fold_W_dec_norm()
    raw = exported(bilinear("atomic"), tmp_path / "raw")
    with pytest.raises(AttributeError, match="its decoder is not linear"):
        raw.W_dec  # noqa: B018


def test_lower_precision_is_exact_in_indices_or_refused(tmp_path: Path) -> None:
    autoencoder, x = bilinear("composite sparse affine"), tokens(6)  # 400 atoms: too many for bfloat16
    quadric.export(autoencoder, to="saelens", out=tmp_path / "out")
    with pytest.raises(ValueError, match="load with dtype='float32', then"):
        SAE.load_from_disk(tmp_path / "out", dtype="bfloat16")
    sae = SAE.load_from_disk(tmp_path / "out").to(torch.bfloat16)
    assert sae(x).dtype == torch.bfloat16
    double = SAE.load_from_disk(tmp_path / "out", dtype="float64")
    torch.testing.assert_close(double(x).float(), autoencoder.rebuild(x), rtol=1e-4, atol=1e-4)


def test_the_dictionary_itself_is_at_hand(tmp_path: Path) -> None:
    autoencoder = bilinear("composite sparse affine")
    sae = exported(autoencoder, tmp_path / "out")
    assert isinstance(autoencoder, BilinearAutoencoder)
    torch.testing.assert_close(sae.dictionary().form(2), autoencoder.form(2))


def test_gradients_flow_to_the_input(tmp_path: Path) -> None:
    sae, x = exported(bilinear("atomic affine"), tmp_path / "out"), tokens(6).requires_grad_()
    sae(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
