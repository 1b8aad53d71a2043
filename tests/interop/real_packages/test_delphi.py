"""delphi loads an exported cache and builds its examples from it."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("delphi.latents")

from delphi.config import ConstructorConfig, SamplerConfig
from delphi.latents import LatentDataset

import quadric
from tests.activations.tiny import tiny_tokenizer
from tests.interop.exported_run import Observed


def test_delphi_builds_examples(observed: Observed, tmp_path: Path) -> None:
    quadric.export(
        observed.autoencoder,
        to="delphi",
        out=tmp_path / "out",
        evidence=observed.evidence,
        activations=observed.activations,
        quantile=0.75,
        progress=False,
    )
    constructor = ConstructorConfig(example_ctx_len=32, min_examples=4, n_non_activating=4)
    sampler = SamplerConfig(n_examples_train=4, n_examples_test=4, n_quantiles=2, train_type="top")
    data = LatentDataset(
        tmp_path / "out/latents", sampler, constructor, tokenizer=tiny_tokenizer(), modules=["layers.1"]
    )
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
    quadric.export(
        observed.autoencoder,
        to="delphi",
        out=tmp_path / "out",
        evidence=observed.evidence,
        activations=observed.activations,
        quantile=0.75,
        progress=False,
    )
    constructor = ConstructorConfig(example_ctx_len=32, min_examples=1, n_non_activating=1)
    sampler = SamplerConfig(n_examples_train=2, n_examples_test=2, n_quantiles=1, train_type="top")
    data = LatentDataset(
        tmp_path / "out/latents",
        sampler,
        constructor,
        tokenizer=tiny_tokenizer(),
        modules=["layers.1"],
        latents={"layers.1": torch.tensor([2, 7])},
    )
    assert sorted(record.latent.latent_index for record in data) == [2, 7]
