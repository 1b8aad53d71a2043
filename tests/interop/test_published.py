"""The paper's checkpoints, by files of their layout made here: latents and error as the authors' code has them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

import quadric
from tests.interop.foreign_folders import D, tokens, write_published

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
