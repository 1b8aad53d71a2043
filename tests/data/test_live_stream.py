"""Live batches: exact sizes, exact resume, no token lost or repeated with any number of ranks."""

import copy
import json
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from quadric.data import (
    ActivationBatch,
    ActivationConfig,
    ActivationStream,
    BatchSize,
    LanguageModel,
    LiveStream,
    TokenRules,
    describe,
    find_model,
    forward,
    load_model,
)
from quadric.data.batches import COLUMNS
from quadric.data.corpus import CorpusConfig, CorpusError
from quadric.data.corpus.blocks import is_held_out
from quadric.data.corpus.sources import read_documents
from quadric.data.forward import capture
from quadric.data.live_stream import passes_ahead
from quadric.data.provenance import StreamProvenance
from quadric.data.token_rules import ActivationError, TokenCounts
from tests.data.tiny import D_MODEL


@pytest.fixture
def config(tiny_folder: Path, texts: Path) -> ActivationConfig:
    corpus = CorpusConfig(source=str(texts), block_length=32, held_out_fraction=0.25)
    return ActivationConfig(model=str(tiny_folder), hook_points="1,3", corpus=corpus, sequences_per_forward=3)


def stream_of(config: ActivationConfig, batch: BatchSize | None = None, **arguments: Any) -> LiveStream:
    model, provenance = loaded(config.model), described(replace(config, sequences_per_forward=3))
    return LiveStream(config, model, batch=batch or BatchSize(tokens=50), provenance=provenance, **arguments)


@cache
def loaded(model: str) -> LanguageModel:
    return load_model(find_model(model), device="cpu")


@cache
def described(config: ActivationConfig) -> StreamProvenance:
    return describe(config, device="cpu")


def places(batches: list[ActivationBatch]) -> list[tuple[int, int]]:
    """(sequence, position) of every row."""
    return [
        place for batch in batches for place in zip(batch.sequences.tolist(), batch.positions.tolist(), strict=True)
    ]


def assert_same(found: list[ActivationBatch], expected: list[ActivationBatch]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.token_ids, other.token_ids)
        assert torch.equal(one.documents, other.documents)
        for name in other.activations:
            assert torch.equal(one.activations[name], other.activations[name])


def test_a_live_stream_is_an_activation_stream(config: ActivationConfig) -> None:
    assert isinstance(stream_of(config), ActivationStream)


def test_batches_by_tokens_have_exactly_that_many(config: ActivationConfig) -> None:
    stream = stream_of(config, BatchSize(tokens=50))
    batches = list(stream)
    assert {len(batch) for batch in batches[:-1]} == {50}
    assert 0 < len(batches[-1]) <= 50
    assert stream.hook_points == ("resid_pre.1", "resid_pre.3")
    assert batches[0].activations["resid_pre.3"].shape == (50, D_MODEL)


def test_batches_by_sequences_hold_whole_sequences(config: ActivationConfig) -> None:
    batches = list(stream_of(config, BatchSize(sequences=4)))
    for number, batch in enumerate(batches):
        assert set(batch.sequences.tolist()) <= set(range(4 * number, 4 * number + 4))
    assert places(batches) == places(list(stream_of(config, BatchSize(tokens=50))))


def test_rows_equal_the_activations_of_the_model(config: ActivationConfig) -> None:
    config = replace(config, rules=TokenRules(special_tokens="keep", outliers="keep"))
    stream = stream_of(config, BatchSize(sequences=3))
    batch = next(iter(stream))
    tokens = batch.token_ids.view(3, 32)
    expected = capture(stream.model, stream.points, tokens)["resid_pre.3"]
    torch.testing.assert_close(batch.activations["resid_pre.3"].view(3, 32, -1), expected)
    assert batch.positions.view(3, 32)[1].tolist() == list(range(32))


@pytest.mark.parametrize("size", [BatchSize(tokens=37), BatchSize(sequences=2), BatchSize(tokens=200)])
@pytest.mark.parametrize("repeat", [False, True])
def test_a_restored_stream_continues_with_the_next_batch(
    config: ActivationConfig, size: BatchSize, repeat: bool
) -> None:
    stream, batches, states = stream_of(config, size, repeat=repeat), [], []
    for batch in islice(stream, 25):
        batches.append(batch)
        states.append(json.loads(json.dumps(stream.state_dict())))
    assert len(batches) > 3
    for stop in range(0, len(batches) - 1, 3):
        restored = stream_of(config, size, repeat=repeat)
        restored.load_state_dict(states[stop])
        assert_same(list(islice(restored, len(batches) - stop - 1)), batches[stop + 1 :])


def test_iterating_again_continues_from_the_cursor(config: ActivationConfig) -> None:
    whole = list(stream_of(config))
    stream = stream_of(config)
    first = [next(iter(stream)), next(iter(stream))]
    assert_same(first + list(stream), whole)
    assert list(stream) == []


def test_a_cursor_of_another_stream_is_refused(config: ActivationConfig) -> None:
    state = stream_of(config, BatchSize(tokens=50)).state_dict()
    with pytest.raises(ValueError, match=r"batch: saved \[50, 'tokens'\], here \[60, 'tokens'\]"):
        stream_of(config, BatchSize(tokens=60)).load_state_dict(state)


@pytest.mark.parametrize("world_size", [2, 3])
def test_every_row_belongs_to_exactly_one_rank(config: ActivationConfig, world_size: int) -> None:
    whole = places(list(stream_of(config)))
    parts = [places(list(stream_of(config, rank=rank, world_size=world_size))) for rank in range(world_size)]
    assert sorted(place for part in parts for place in part) == sorted(whole)
    assert len(set(whole)) == len(whole)
    assert all(parts)


def test_each_rank_can_be_resumed(config: ActivationConfig) -> None:
    stream = stream_of(config, rank=1, world_size=2)
    iterator = iter(stream)
    next(iterator)
    state = copy.deepcopy(stream.state_dict())
    expected = list(iterator)
    restored = stream_of(config, rank=1, world_size=2)
    restored.load_state_dict(state)
    assert_same(list(restored), expected)


def rank_streams(config: ActivationConfig, world_size: int, **arguments: Any) -> list[LiveStream]:
    """The streams of a job that reads 6 sequences per step, in forward passes of one."""
    config, size = replace(config, sequences_per_forward=1), BatchSize(sequences=6 // world_size)
    return [stream_of(config, size, rank=rank, world_size=world_size, **arguments) for rank in range(world_size)]


def steps_of(streams: list[Any], n: int) -> list[list[tuple[int, int]]]:
    """The places that all processes together read in each of the next steps."""
    taken = [[places([batch]) for batch in islice(stream, n)] for stream in streams]
    return [sorted(place for part in step for place in part) for step in zip(*taken, strict=True)]


@pytest.mark.parametrize("n_processes", [2, 3])
def test_processes_together_read_the_batches_of_one(config: ActivationConfig, n_processes: int) -> None:
    assert steps_of(rank_streams(config, n_processes), 4) == steps_of(rank_streams(config, 1), 4)


def test_a_rank_outside_the_world_is_refused(config: ActivationConfig) -> None:
    with pytest.raises(ValueError, match="rank=2 is not one of world_size=2"):
        stream_of(config, rank=2, world_size=2)


def test_a_repeating_rank_without_data_is_an_error_and_does_not_hang(config: ActivationConfig) -> None:
    config = replace(config, sequences_per_forward=1000)
    with pytest.raises(CorpusError, match="fills 1 forward passes, too few for world_size=2"):
        list(stream_of(config, rank=1, world_size=2, repeat=True))


def test_only_an_accelerator_is_read_ahead() -> None:
    assert [passes_ahead(torch.device(kind)) for kind in ("cpu", "cuda", "mps")] == [0, 2, 2]


def test_prefetching_changes_nothing(config: ActivationConfig) -> None:
    assert_same(list(stream_of(config, prefetch=0)), list(stream_of(config, prefetch=3)))


def test_every_epoch_has_its_own_order_of_the_same_documents(config: ActivationConfig) -> None:
    config = replace(config, corpus=replace(config.corpus, packing="separate"))
    once = list(stream_of(config, BatchSize(sequences=1)))
    stream = iter(stream_of(config, BatchSize(sequences=1), repeat=True))
    twice = [next(stream) for _ in range(2 * len(once))]
    assert_same(twice[: len(once)], once)
    second = [batch.documents.tolist() for batch in twice[len(once) :]]
    assert second != [batch.documents.tolist() for batch in once]
    assert sorted(second) == sorted(batch.documents.tolist() for batch in once)


def test_held_out_documents_are_never_trained_on(config: ActivationConfig) -> None:
    held_out = {each.index for each in read_documents(config.corpus) if is_held_out(each, 0.25)}
    seen = {
        split: {
            index
            for batch in stream_of(replace(config, corpus=replace(config.corpus, split=split, seed=seed)))
            for index in batch.documents.tolist()
        }
        for split, seed in [("train", 1), ("held_out", 2)]
    }
    assert seen["train"]
    assert seen["train"].isdisjoint(held_out)
    assert seen["held_out"]
    assert seen["held_out"] <= held_out


def test_documents_read_separately_have_the_same_activations_as_alone(config: ActivationConfig) -> None:
    config = replace(
        config,
        corpus=replace(config.corpus, packing="separate", block_length=128),
        rules=TokenRules(outliers="keep"),
    )
    stream = stream_of(config, BatchSize(sequences=1))
    documents = {each.index: each.text for each in read_documents(config.corpus)}
    for batch in stream:
        text = documents[int(batch.documents[0])]
        (tokens,) = stream.model.tokenizer.encode([text])
        assert len(batch) == len(tokens)  # no padding
        alone = capture(stream.model, stream.points, torch.tensor([tokens]))["resid_pre.3"][0]
        error = (batch.activations["resid_pre.3"] - alone).norm(dim=1) / alone.norm(dim=1)
        assert error.max().item() < 3e-5


@pytest.mark.parametrize("cost", [0, 16, 10_000])
def test_hardly_any_padding_is_computed_and_the_order_stays(
    config: ActivationConfig, monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    config = replace(config, corpus=replace(config.corpus, packing="separate", block_length=128))
    together = list(stream_of(config, BatchSize(sequences=1)))
    monkeypatch.setattr(forward, "PASS_COST", cost)
    stream, computed = stream_of(config, BatchSize(sequences=1)), list[int]()

    def counted(_: object, __: object, given: dict[str, torch.Tensor]) -> None:
        computed.append(given["input_ids"].numel())

    counting = stream.model.decoder.register_forward_pre_hook(counted, with_kwargs=True)
    batches = list(stream)
    counting.remove()
    counts = sum((each.counts for each in stream_of(config).passes()), TokenCounts())
    assert sum(computed) == counts.positions
    assert (counts.padding == 0) == (cost == 0)
    for ours, theirs in zip(batches, together, strict=True):
        for column in COLUMNS:
            assert torch.equal(getattr(ours, column), getattr(theirs, column))
        for name, vectors in ours.activations.items():
            torch.testing.assert_close(vectors, theirs.activations[name], rtol=1e-4, atol=1e-4)


def test_an_error_while_reading_reaches_the_consumer(config: ActivationConfig) -> None:
    broken = load_model(find_model(config.model), device="cpu")
    broken.layers[0].mlp.down_proj.weight.fill_(float("nan"))
    stream = LiveStream(config, broken, batch=BatchSize(tokens=50), provenance=described(config))
    with pytest.raises(ActivationError, match=r"resid_pre.1 is not finite at document"):
        list(stream)


def test_provenance_records_everything_that_determines_the_values(
    config: ActivationConfig, tiny_folder: Path, texts: Path
) -> None:
    provenance = describe(config, device="cpu")
    assert provenance == LiveStream.open(config, device="cpu", batch=BatchSize(tokens=50)).provenance
    assert provenance.model == tiny_folder.name
    assert provenance.model_revision.startswith("sha256:")
    assert provenance.model_dtype == "float32"
    assert provenance.corpus == texts.name
    assert provenance.hook_points == ("resid_pre.1", "resid_pre.3")
    assert provenance.block_length == 32
    assert provenance.corpus_settings["held_out_fraction"] == 0.25
    changed = describe(replace(config, hook_points="1", corpus=replace(config.corpus, seed=5)), device="cpu")
    assert provenance.differences(changed) == [
        'hook_points: stored ["resid_pre.1", "resid_pre.3"], asked for ["resid_pre.1"]',
        "corpus_settings.seed: stored 0, asked for 5",
    ]


def test_invalid_batch_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="give exactly one"):
        BatchSize()
    with pytest.raises(ValueError, match="give exactly one"):
        BatchSize(tokens=1, sequences=1)
    with pytest.raises(ValueError, match="is empty"):
        BatchSize(tokens=0)
