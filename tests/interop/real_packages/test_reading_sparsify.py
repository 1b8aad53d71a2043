"""A folder that sparsify saved gives sparsify's own latents and reconstructions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import quadric
from tests.interop.real_packages.real import real_package

sparsify = real_package("sparsify")
pytestmark = pytest.mark.filterwarnings("ignore")

D, K = 24, 96


def made(seed: int = 0, **settings: Any) -> Any:
    coder = sparsify.SparseCoder(D, sparsify.SparseCoderConfig(k=7, **settings), dtype=torch.float32)
    with torch.no_grad():
        for parameter in coder.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(seed))
    return coder


def latents_of(coder: Any, x: Tensor) -> Tensor:
    values, indices, _ = coder.encode(x)
    return torch.zeros(len(x), coder.num_latents).scatter(1, indices, values)


@pytest.mark.parametrize("settings", [{"expansion_factor": 4}, {"num_latents": K, "multi_topk": True}])
def test_latents_and_reconstructions_are_those_of_sparsify(settings: dict[str, Any], tmp_path: Path) -> None:
    coder = made(**settings)
    coder.save_to_disk(tmp_path / "layers.3")
    ae = quadric.load(tmp_path / "layers.3")
    x = 20 * torch.randn(100, D, generator=torch.Generator().manual_seed(1)) + 30
    with torch.no_grad():
        assert_close(ae.encode(ae.prepare(x)), latents_of(coder, x), rtol=1e-5, atol=1e-3)
        top_acts, top_indices, _ = coder.encode(x)
        assert_close(ae.rebuild(x), coder.decode(top_acts, top_indices), rtol=1e-5, atol=1e-2)
        if not coder.cfg.multi_topk:  # whose forward returns the reconstruction from 4k latents instead
            assert_close(ae.rebuild(x), coder(x).sae_out, rtol=1e-5, atol=1e-2)
    assert ae.provenance.hook_point == "resid_pre.4"


def test_a_training_run_is_a_folder_of_dictionaries(tmp_path: Path) -> None:
    for seed, name in enumerate(("layers.3", "layers.6")):
        made(seed).save_to_disk(tmp_path / "run" / name)
    (tmp_path / "run" / "config.json").write_text(json.dumps({"model": "org/model", "dataset": "org/text"}))
    with pytest.raises(ValueError, match=r"holds 2 autoencoders: layers\.3, layers\.6; choose one with --name"):
        quadric.load(tmp_path / "run")
    ae = quadric.load(tmp_path / "run", name="layers.6")
    assert (ae.provenance.model, ae.provenance.hook_point) == ("org/model", "resid_pre.7")
    assert torch.equal(ae.decoder, made(1).W_dec)


@pytest.mark.parametrize("settings", [{"transcode": True}, {"skip_connection": True}, {"activation": "groupmax"}])
def test_what_is_not_read_is_refused_by_name(settings: dict[str, Any], tmp_path: Path) -> None:
    made(expansion_factor=7 if "activation" in settings else 4, **settings).save_to_disk(tmp_path / "sae")
    with pytest.raises(ValueError, match=f"cfg.json: {next(iter(settings))}"):
        quadric.load(tmp_path / "sae")
