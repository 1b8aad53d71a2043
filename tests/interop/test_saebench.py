"""What SAEBench asks of custom SAEs, without SAEBench."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from quadric.interop.saebench import BenchSAE, bench_record, load, load_lines, write_saebench
from quadric.model import Autoencoder, BilinearAutoencoder, Provenance
from tests.interop.dictionaries import AFFINE, BILINEAR, D_MODEL, LINEAR, bilinear, linear, tokens

EVERY = [*BILINEAR, *LINEAR]


def make(name: str) -> Autoencoder:
    return linear(name) if name in LINEAR else bilinear(name)


def bench(name: str) -> BenchSAE:
    return BenchSAE(make(name), model_name="small", hook_name="blocks.3.hook_resid_pre", hook_layer=3)


@pytest.mark.parametrize("name", EVERY)
def test_reconstructions_are_those_of_quadric(name: str) -> None:
    sae, x = bench(name), tokens(3, 5)
    expected = make(name).rebuild(x.flatten(0, 1)).reshape(x.shape)
    torch.testing.assert_close(sae(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sae.decode(sae.encode(x)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_shapes_norms_and_units(name: str) -> None:
    sae, autoencoder, x = bench(name), make(name), tokens(9)
    k = autoencoder.n_latents
    assert sae.W_enc.shape == (D_MODEL, k)
    assert sae.W_dec.shape == (k, D_MODEL)
    assert (sae.b_enc.shape, sae.b_dec.shape) == ((k,), (D_MODEL,))
    torch.testing.assert_close(sae.W_dec.norm(dim=1), torch.ones(k))
    torch.testing.assert_close(sae.encode(x), autoencoder.encode(autoencoder.prepare(x)) * sae.units)


@pytest.mark.parametrize("name", [*AFFINE, "topk", "batch_topk"])
def test_decoding_is_linear_in_w_dec_at_the_tokens_length(name: str) -> None:
    sae, x = bench(name), tokens(9)
    latents = sae.encode(x)
    linear_part = (latents @ sae.W_dec + sae.b_dec) * x.norm(dim=-1, keepdim=True) / D_MODEL**0.5
    torch.testing.assert_close(sae.decode(latents), linear_part, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variety", AFFINE)
def test_w_enc_is_the_linear_part_of_each_latent(variety: str) -> None:
    sae, autoencoder = bench(variety), bilinear(variety)
    assert isinstance(autoencoder, BilinearAutoencoder)
    constant = autoencoder.lens.constant
    assert constant is not None
    for latent in (0, 5):
        form = autoencoder.form(latent)
        read_at = D_MODEL**0.5  # SAEBench's tokens have this length
        torch.testing.assert_close(sae.W_enc[:, latent], 2 * constant * form[:-1, -1] * sae.units[latent] / read_at)
        torch.testing.assert_close(sae.b_enc[latent], constant**2 * form[-1, -1] * sae.units[latent])


@pytest.mark.parametrize("name", ["topk", "batch_topk", "relu of own length"])
def test_encoding_with_the_weights_is_that_of_a_linear_dictionary(name: str) -> None:
    sae, x = bench(name), tokens(9)
    length = 1.0 if "own" in name else D_MODEL**0.5 / x.norm(dim=-1, keepdim=True)
    bias = 0 if "own" in name else sae.b_dec
    before = (x * length - bias) @ sae.W_enc + sae.b_enc
    latents = sae.encode(x)
    torch.testing.assert_close(latents, before * (latents > 0), rtol=1e-4, atol=1e-4)
    assert (latents > 0).any()


def test_w_dec_without_a_lens_is_the_leading_eigenvector() -> None:
    sae, autoencoder = bench("quadratic"), bilinear("quadratic")
    assert isinstance(autoencoder, BilinearAutoencoder)
    for latent in range(4):
        values, vectors = torch.linalg.eigh(autoencoder.form(latent))
        leading = vectors[:, values.abs().argmax()]
        assert abs(float(leading @ sae.W_dec[latent])) == pytest.approx(1, abs=1e-4)
        expected = D_MODEL**0.5 * float(autoencoder.form(latent).norm())
        assert float(sae.units[latent]) == pytest.approx(expected, rel=1e-4)


def test_masked_tokens_have_zero_latents_and_leave_others_alone() -> None:
    sae, x = bench("atomic affine"), tokens(2, 4)
    alone = sae.encode(x[1])
    x[0] = 0
    latents = sae.encode(x)
    assert not latents[0].any()
    torch.testing.assert_close(latents[1], alone)
    assert not sae.decode(latents)[0].any()


def test_an_ablation_decodes_twice() -> None:
    sae, x = bench("atomic affine"), tokens(6)
    latents = sae.encode(x)
    error = x - sae.decode(latents)
    torch.testing.assert_close(sae.decode(latents) + error, x)
    with pytest.raises(ValueError, match="were encoded last"):
        sae.decode(latents[:3])
    with pytest.raises(ValueError, match="without encode"):
        bench("atomic affine").decode(latents)


def test_precision_changes_results_and_not_weights() -> None:
    sae, x = bench("atomic affine"), tokens(4)
    exact = sae(x)
    assert sae.to(dtype=torch.bfloat16) is sae
    assert (sae.dtype, sae.cfg.dtype, sae(x).dtype, sae.W_dec.dtype) == (
        torch.bfloat16,
        "bfloat16",
        torch.bfloat16,
        torch.float32,
    )
    torch.testing.assert_close(sae(x).float(), exact, rtol=0.02, atol=0.02 * float(exact.abs().max()))


def test_a_folder_is_loaded_as_it_was_written(tmp_path: Path) -> None:
    write_saebench(tmp_path, bilinear("composite sparse affine"), model_name="small")
    sae, x = load(tmp_path), tokens(5)
    assert (sae.cfg.model_name, sae.cfg.hook_name, sae.cfg.hook_layer) == ("small", "blocks.3.hook_resid_pre", 3)
    assert sae.cfg.to_dict() == asdict(sae.cfg)
    assert torch.equal(sae(x), bench("composite sparse affine")(x))
    assert "load" in load_lines(tmp_path)


def test_a_dictionary_of_unknown_place_is_refused() -> None:
    autoencoder = bilinear("atomic")
    autoencoder.provenance = Provenance()
    with pytest.raises(ValueError, match="records no hook point"):
        bench_record(autoencoder, None)
    autoencoder.provenance = Provenance(hook_point="resid_pre.3")
    with pytest.raises(ValueError, match=r"records no language model.*--model-name"):
        bench_record(autoencoder, None)
    assert bench_record(autoencoder, "small")["hook_layer"] == 3


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no saebench\.json in"):
        load(tmp_path)
    (tmp_path / "saebench.json").write_text('{"format": "quadric-saebench", "format_version": 9}')
    with pytest.raises(ValueError, match="newer than"):
        load(tmp_path)
