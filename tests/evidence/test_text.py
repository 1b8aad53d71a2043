"""Text behind a stream: the same for a live stream and its cache, including dropped positions; rows of a tensor."""

from pathlib import Path

import numpy as np
import pytest

from quadric import BilinearAutoencoder
from quadric.data import (
    ActivationCache,
    ActivationConfig,
    BatchSize,
    CachedStream,
    HarvestConfig,
    LiveStream,
    harvest_to_folder,
)
from quadric.data.corpus import CorpusConfig
from quadric.evidence import EvidenceSettings, collect, text_behind
from quadric.evidence.places import as_text
from tests.data.tiny import D_MODEL, save_tiny
from tests.evidence.test_collector import assert_same

SETTINGS = EvidenceSettings(n_points=30, n_contexts=2, n_axes=3)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ActivationConfig:
    """A tiny model that puts a BOS before every block, on a few texts."""
    folder = tmp_path_factory.mktemp("texts")
    for number in range(12):
        (folder / f"{number:02d}.txt").write_text(f"Document {number}: é " + "word " * (3 + number), encoding="utf-8")
    model = save_tiny(tmp_path_factory.mktemp("models") / "tiny", adds_bos=True)
    corpus = CorpusConfig(source=str(folder), block_length=32, held_out_fraction=0.0)
    return ActivationConfig(model=str(model), hook_points="layers.1", corpus=corpus, sequences_per_forward=4)


def autoencoder() -> BilinearAutoencoder:
    return BilinearAutoencoder(d_model=D_MODEL, n_latents=5, prior="atomic", seed=0)


def test_a_live_stream_and_its_cache_give_the_same_evidence(config: ActivationConfig, tmp_path: Path) -> None:
    live = LiveStream.open(config, batch=BatchSize(tokens=100), device="cpu")
    first = collect(autoencoder(), live, tmp_path / "live", n_tokens=400, settings=SETTINGS)
    harvest_to_folder(config, HarvestConfig(tokens=10_000, dtype="float32"), tmp_path / "cache", device="cpu")
    stored = CachedStream(ActivationCache(tmp_path / "cache"), batch=BatchSize(tokens=64), seed=None)
    text = text_behind(stored, config.model)
    second = collect(autoencoder(), stored, tmp_path / "cached", n_tokens=400, settings=SETTINGS, text=text)
    assert_same(first, second)


def test_the_text_reads_as_it_was_written_with_special_tokens_in_place(config: ActivationConfig) -> None:
    text = text_behind(LiveStream.open(config, batch=BatchSize(tokens=100), device="cpu"))
    tokens = np.concatenate([text.sequence(number).tokens[1:] for number in range(4)])
    assert text.token_bytes([int(text.sequence(0).tokens[0])]) == [b"<bos>"]
    read = as_text(text.token_bytes(tokens.tolist()))
    assert read.count("é word word word") >= 3
    assert "<|endoftext|>Document" in read


def test_documents_change_where_the_text_does(config: ActivationConfig) -> None:
    sequence = text_behind(LiveStream.open(config, batch=BatchSize(tokens=100), device="cpu")).sequence(1)
    changes = np.flatnonzero(np.diff(sequence.documents))
    assert len(changes) >= 1
    assert (sequence.tokens[changes] == 0).all()  # a document ends with its separator


def test_a_cache_needs_its_own_tokenizer(config: ActivationConfig, tmp_path: Path) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=100), tmp_path / "cache", device="cpu")
    stream = CachedStream(ActivationCache(tmp_path / "cache"), batch=BatchSize(tokens=64), seed=None)
    other = save_tiny(tmp_path / "other", adds_bos=False)
    with pytest.raises(ValueError, match="is not the one that"):
        text_behind(stream, str(other))
