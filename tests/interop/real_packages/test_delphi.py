"""delphi loads an exported cache and builds its examples from it."""

from pathlib import Path
from typing import Any

import pytest
import torch

import quadric
from tests.data.tiny import tiny_tokenizer
from tests.interop.exported_run import Observed
from tests.interop.real_packages.real import real_package

latents = real_package("delphi.latents")
config = real_package("delphi.config")
pytestmark = pytest.mark.filterwarnings("ignore")


def dataset(observed: Observed, out: Path, *, min_examples: int, **which: Any) -> Any:
    """What delphi reads of an export in which every latent fires on a quarter of the tokens, at most."""
    quadric.export(
        observed.autoencoder,
        to="delphi",
        out=out,
        evidence=observed.evidence,
        activations=observed.activations,
        quantile=0.75,
        progress=False,
    )
    constructor = config.ConstructorConfig(example_ctx_len=32, min_examples=min_examples, n_non_activating=4)
    sampler = config.SamplerConfig(n_examples_train=4, n_examples_test=4, n_quantiles=2, train_type="top")
    return latents.LatentDataset(
        out / "latents", sampler, constructor, tokenizer=tiny_tokenizer(), modules=["layers.1"], **which
    )


def test_delphi_builds_examples(observed: Observed, tmp_path: Path) -> None:
    data = dataset(observed, tmp_path / "out", min_examples=4)
    records = {record.latent.latent_index: record for record in data}
    away, batch = torch.from_numpy(observed.away()), observed.activations.batch
    assert len(records) >= 10
    for latent, record in records.items():
        assert record.max_activation == pytest.approx(float(away[:, latent].max()), rel=1e-3)
        assert record.per_token_frequency == pytest.approx(0.2, abs=0.15)
        assert len(record.train) == 4
        strongest, row = record.train[0], int(away[:, latent].argmax())
        sequence, position = int(batch.sequences[row]), int(batch.positions[row])
        assert float(strongest.activations[position % 32]) == pytest.approx(float(away[row, latent]), rel=1e-3)
        read = list(observed.activations.sequences[sequence].tokens)[position // 32 * 32 :][:32]
        assert strongest.tokens.tolist()[: len(read)] == read


def test_selected_latents_are_found(observed: Observed, tmp_path: Path) -> None:
    data = dataset(observed, tmp_path / "out", min_examples=1, latents={"layers.1": torch.tensor([2, 7])})
    assert sorted(record.latent.latent_index for record in data) == [2, 7]
