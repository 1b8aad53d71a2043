"""Text behind a stream: a live one and its cache tell the same story, dropped positions included."""

from pathlib import Path

import numpy as np
import pytest

from quadric import BilinearAutoencoder
from quadric.activations import (
    ActivationCache,
    ActivationConfig,
    BatchSize,
    CachedStream,
    HarvestConfig,
    LiveStream,
    harvest,
)
from quadric.corpus import CorpusConfig
from quadric.evidence import EvidenceSettings, collect, text_behind
from quadric.evidence.places import place_of, position_of, sequence_of
from quadric.evidence.text import as_text, window_hashes
from tests.activations.tiny import D_MODEL, save_tiny
from tests.evidence.streams import RandomText
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
    harvest(config, HarvestConfig(tokens=10_000, dtype="float32"), tmp_path / "cache", device="cpu")
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
    harvest(config, HarvestConfig(tokens=100), tmp_path / "cache", device="cpu")
    stream = CachedStream(ActivationCache(tmp_path / "cache"), batch=BatchSize(tokens=64), seed=None)
    other = save_tiny(tmp_path / "other", adds_bos=False)
    with pytest.raises(ValueError, match="is not the one that"):
        text_behind(stream, str(other))


def test_windows_are_told_apart_by_their_tokens_and_by_the_ends_of_sequences() -> None:
    text = RandomText(2)
    text.tokens[:] = 0
    text.tokens[1, 10] = 1
    positions = np.arange(20)
    first, second = (window_hashes(text, np.full(20, number), positions, 2) for number in (0, 1))
    assert len(set(first.tolist())) == 5  # two at each end, and the middle
    np.testing.assert_array_equal(first == second, np.abs(positions - 10) > 2)


def test_places_hold_sequence_and_position() -> None:
    sequences, positions = np.array([0, 3, 10**9]), np.array([5, 0, 2**20 - 1])
    places = place_of(sequences, positions)
    np.testing.assert_array_equal(sequence_of(places), sequences)
    np.testing.assert_array_equal(position_of(places), positions)
