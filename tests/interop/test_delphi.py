"""The files for delphi, read back by their documented layout and compared with the dictionary's own latents."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from quadric import TopKAutoencoder
from quadric.evidence import RowText
from quadric.interop import delphi
from quadric.interop.delphi import FiringRule, firing_limits, load_lines, write_delphi
from tests.data.tiny import D_MODEL
from tests.interop.exported_run import Observed


def read_back(folder: Path, hook: str, n_latents: int) -> tuple[np.ndarray, np.ndarray]:
    """A dense table (sequence, position, latent) of activations, and the tokens."""
    tokens, dense = None, None
    for path in sorted((folder / "latents" / hook).glob("*.safetensors")):
        start, end = map(int, path.stem.split("_"))
        arrays = load_file(path)
        tokens = arrays["tokens"]
        if dense is None:
            dense = np.zeros((*tokens.shape, n_latents), dtype=np.float32)
        sequence, position, latent = arrays["locations"].astype(np.int64).T
        assert (latent <= end - start).all()
        dense[sequence, position, latent + start] = arrays["activations"]
    assert tokens is not None
    assert dense is not None
    return tokens, dense


def expected(observed: Observed, limits: np.ndarray, factor: int, shape: tuple[int, ...]) -> np.ndarray:
    """The same table, by the plain formula."""
    batch, away = observed.activations.batch, factor * observed.away()
    table = np.zeros(shape, dtype=np.float32)
    table[batch.sequences.numpy(), batch.positions.numpy()] = np.where(away > limits, away, 0)
    return table


@pytest.mark.parametrize(("side", "factor", "row"), [("positive", 1, 0.99), ("negative", -1, 0.01)])
def test_a_latent_fires_beyond_its_own_quantile(
    observed: Observed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, factor: int, row: float
) -> None:
    monkeypatch.setattr(delphi, "LATENTS_PER_FILE", 5)
    rule = FiringRule(side=side)  # type: ignore[arg-type]
    hook = write_delphi(tmp_path, observed.autoencoder, observed.reading(), observed.evidence, rule=rule)
    assert hook == "layers.1"
    files = sorted(path.name for path in (tmp_path / "latents" / hook).iterdir())
    assert files == ["0_4.safetensors", "10_11.safetensors", "5_9.safetensors", "config.json"]
    _tokens, dense = read_back(tmp_path, hook, 12)
    known = observed.evidence.statistics
    quantile = known.quantiles[:, list(known.probabilities).index(row)]
    limits = np.maximum(factor * (quantile - observed.evidence.calibration.rest), 0)
    np.testing.assert_allclose(dense, expected(observed, limits, factor, dense.shape), rtol=1e-4, atol=1e-6)
    share = (dense > 0).sum((0, 1)) / len(observed.activations)
    assert (share < 0.03).all()
    assert share.mean() == pytest.approx(0.01, abs=0.006)


def test_tokens_are_those_of_the_language_model(observed: Observed, tmp_path: Path) -> None:
    hook = write_delphi(tmp_path, observed.autoencoder, observed.reading(), observed.evidence)
    tokens, _ = read_back(tmp_path, hook, 12)
    assert tokens.shape[1] % 32 == 0
    for row, sequence in zip(tokens, observed.activations.sequences, strict=True):
        assert row[: len(sequence.tokens)].tolist() == list(sequence.tokens)
        assert set(row[len(sequence.tokens) :].tolist()) <= {0}  # the byte tokenizer's <|endoftext|>


def test_the_config_says_where_latents_come_from(observed: Observed, tmp_path: Path) -> None:
    hook = write_delphi(tmp_path, observed.autoencoder, observed.reading(), observed.evidence, model_name="owner/small")
    config = json.loads((tmp_path / "latents" / hook / "config.json").read_text())
    assert config["model_name"] == "owner/small"
    assert config["quadric"] == {"hook_point": "resid_pre.2", "firing": {"quantile": 0.99, "side": "positive"}}
    assert hook in load_lines(tmp_path, hook)


def test_a_linear_latent_fires_where_it_is_not_zero(observed: Observed, tmp_path: Path) -> None:
    topk = TopKAutoencoder(d_model=D_MODEL, n_latents=16, n_active=3, provenance=observed.autoencoder.provenance).eval()
    hook = write_delphi(tmp_path, topk, observed.reading(), None)
    _, dense = read_back(tmp_path, hook, 16)
    batch = observed.activations.batch
    latents = topk.encode(topk.prepare(observed.activations.vectors)).detach().numpy()
    np.testing.assert_allclose(dense[batch.sequences, batch.positions], latents, rtol=1e-4, atol=1e-6)
    assert json.loads((tmp_path / "latents" / hook / "config.json").read_text())["quadric"]["firing"] is None


def test_quantiles_that_evidence_does_not_hold_are_refused(observed: Observed) -> None:
    for quantile in (0.9, 0.01, 0.5):
        with pytest.raises(ValueError, match=r"choose one of 0\.75, 0\.95, 0\.99, 0\.999"):
            firing_limits(observed.evidence, FiringRule(quantile=quantile))


def test_rows_without_tokens_are_refused(observed: Observed, tmp_path: Path) -> None:
    reading = replace(observed.reading(), text=RowText(len(observed.activations)))
    with pytest.raises(ValueError, match="rows of a tensor have no tokens"):
        write_delphi(tmp_path, observed.autoencoder, reading, observed.evidence)
