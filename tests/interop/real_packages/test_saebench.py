"""SAEBench's own checks of custom SAEs, and one of its evaluations on activations given as files."""

from pathlib import Path
from types import SimpleNamespace

import jaxtyping
import pytest
import torch

import quadric
from quadric.interop.saebench import BenchSAE, load
from quadric.model import Autoencoder
from tests.interop.dictionaries import BILINEAR, D_MODEL, LINEAR, bilinear, linear, tokens
from tests.interop.real_packages.real import real_package

sparse_probing = real_package("sae_bench.evals.sparse_probing.main")
base_sae = real_package("sae_bench.custom_saes.base_sae")
general_utils = real_package("sae_bench.sae_bench_utils.general_utils")
pytestmark = pytest.mark.filterwarnings("ignore")

EVERY = [*BILINEAR, *LINEAR]


def exported(name: str, folder: Path) -> BenchSAE:
    autoencoder: Autoencoder = linear(name) if name in LINEAR else bilinear(name)
    quadric.export(autoencoder, to="saebench", out=folder)
    return load(folder)


@pytest.mark.parametrize("name", EVERY)
def test_saebench_checks_of_custom_saes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sae, x = exported(name, tmp_path / "out"), tokens(1, 20)
    assert base_sae.BaseSAE.check_decoder_norms(sae)
    model = SimpleNamespace(run_with_cache=lambda *_, **__: (None, {"blocks.3.hook_resid_pre": x}))
    loader = SimpleNamespace(from_pretrained=lambda *_, **__: model)
    monkeypatch.setattr(base_sae, "HookedTransformer", loader)
    base_sae.BaseSAE.test_sae(sae, "small")


@pytest.mark.parametrize("name", ["composite sparse affine", "topk"])
def test_saebench_takes_it_as_a_selected_sae(name: str, tmp_path: Path) -> None:
    sae = exported(name, tmp_path / "out")
    sae_id, found, _ = general_utils.load_and_format_sae("quadric", sae, "cpu")
    assert (sae_id, found) == ("custom_sae", sae)
    assert sae.cfg.hook_layer == 3
    assert sae.to(device="cpu", dtype=torch.float32) is sae


@pytest.mark.parametrize("name", ["atomic affine", "quadratic", "topk"])
def test_sparse_probing_runs_offline(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # SAEBench 0.6 checks a shape against one of the calling function: with beartype 0.23, its own SAEs fail as well.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    sae = exported(name, tmp_path / "out")
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(3, D_MODEL, generator=generator)

    def some(n: int) -> dict[str, torch.Tensor]:
        """Tokens of three classes; the last two of every text are masked, as SAEBench masks padding."""
        made = {}
        for number, centre in enumerate(centres):
            acts = 30 * (centre + 0.5 * torch.randn(n, 6, D_MODEL, generator=generator))
            acts[:, 4:] = 0
            made[str(number)] = acts
        return made

    train, test = some(60), some(40)
    given = {"train": train, "test": test, "llm_results": {"llm_test_accuracy": {"0": 1.0}}}
    (tmp_path / "artifacts").mkdir()
    torch.save(given, tmp_path / "artifacts/local_activations.pt")
    config = sparse_probing.SparseProbingEvalConfig(
        dataset_names=["local"], k_values=[1, 5], sae_batch_size=32, model_name="small", lower_vram_usage=False
    )
    results, _ = sparse_probing.run_eval_single_dataset(
        "local", config, sae, None, 3, sae.cfg.hook_name, "cpu", str(tmp_path / "artifacts"), False
    )
    reached = [results[f"sae_{which}test_accuracy"] for which in ("", "top_1_", "top_5_")]
    assert all(0 <= each <= 1 for each in reached)
    assert max(reached) > 0.65  # chance is 0.5
