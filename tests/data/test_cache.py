"""A cache returns the stored activations, in any order, without loading all of them."""

import json
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from quadric._io.files import sha256_of_file
from quadric.data import (
    ActivationBatch,
    ActivationCache,
    ActivationConfig,
    ActivationStream,
    BatchSize,
    CachedStream,
    HarvestConfig,
    LiveStream,
    describe,
    harvest_to_folder,
)
from quadric.data import cache as cache_module
from quadric.data.corpus import CorpusConfig
from quadric.data.storage import CacheError

TOKENS = 700


@pytest.fixture(scope="module")
def config(tiny_folder: Path, texts: Path) -> ActivationConfig:
    corpus = CorpusConfig(source=str(texts), block_length=32)
    return ActivationConfig(model=str(tiny_folder), hook_points="1,3", corpus=corpus, sequences_per_forward=2)


@pytest.fixture(scope="module")
def folder(config: ActivationConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cache")
    storage = HarvestConfig(tokens=TOKENS, sequences_per_shard=4, dtype="float32")
    harvest_to_folder(config, storage, path, device="cpu")
    return path


def stream_of(folder: Path, batch: BatchSize | None = None, **arguments: Any) -> CachedStream:
    return CachedStream(ActivationCache(folder), batch=batch or BatchSize(tokens=60), **arguments)


def places(batches: list[ActivationBatch]) -> list[tuple[int, int]]:
    return [
        place for batch in batches for place in zip(batch.sequences.tolist(), batch.positions.tolist(), strict=True)
    ]


def assert_same(found: list[ActivationBatch], expected: list[ActivationBatch]) -> None:
    assert places(found) == places(expected)
    assert [len(batch) for batch in found] == [len(batch) for batch in expected]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.token_ids, other.token_ids)
        assert torch.equal(one.documents, other.documents)
        for name in other.activations:
            assert torch.equal(one.activations[name], other.activations[name])


def test_a_cached_stream_is_an_activation_stream(folder: Path) -> None:
    assert isinstance(stream_of(folder), ActivationStream)


@pytest.mark.parametrize("size", [BatchSize(tokens=70), BatchSize(sequences=3)])
def test_unshuffled_batches_equal_the_live_stream(config: ActivationConfig, folder: Path, size: BatchSize) -> None:
    live = LiveStream.open(config, device="cpu", batch=size)
    cached = list(stream_of(folder, size, seed=None))
    whole = 9 if size.unit == "tokens" else len(cached) - 1  # the last batch is cut off by the end of the cache
    assert_same(cached[:whole], list(islice(live, whole)))
    assert live.provenance == ActivationCache(folder).provenance


@pytest.mark.parametrize("window", [1, 200, 1 << 20])
@pytest.mark.parametrize("size", [BatchSize(tokens=60), BatchSize(sequences=3)])
def test_shuffling_is_a_seeded_permutation(folder: Path, window: int, size: BatchSize) -> None:
    stored = list(stream_of(folder, size, seed=None))
    first = list(stream_of(folder, size, seed=1, window=window))
    assert sorted(places(first)) == places(stored)
    assert places(first) != places(stored)
    assert_same(list(stream_of(folder, size, seed=1, window=window)), first)
    assert places(list(stream_of(folder, size, seed=2, window=window))) != places(first)
    if size.unit == "tokens":
        assert {len(batch) for batch in first[:-1]} == {60}


def test_a_row_keeps_its_vector_when_shuffled(folder: Path) -> None:
    def by_place(batches: list[ActivationBatch]) -> dict[tuple[int, int], torch.Tensor]:
        vectors = torch.cat([batch.activations["resid_pre.3"] for batch in batches])
        return dict(zip(places(batches), vectors, strict=True))

    stored, shuffled = by_place(list(stream_of(folder, seed=None))), by_place(list(stream_of(folder, seed=4)))
    assert stored.keys() == shuffled.keys()
    assert all(torch.equal(stored[place], shuffled[place]) for place in stored)


def test_a_wide_window_mixes_shards(folder: Path) -> None:
    batch = next(iter(stream_of(folder, seed=1)))
    assert len(set((batch.sequences // 4).tolist())) > 3


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("size", [BatchSize(tokens=60), BatchSize(sequences=3)])
def test_every_row_belongs_to_exactly_one_rank(folder: Path, world_size: int, size: BatchSize) -> None:
    parts = [list(stream_of(folder, size, rank=rank, world_size=world_size)) for rank in range(world_size)]
    whole = list(stream_of(folder, size))
    assert sorted(place for part in parts for place in places(part)) == sorted(places(whole))
    assert_same(parts[1], whole[1::world_size])


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_restored_stream_continues_with_the_next_batch(folder: Path, world_size: int) -> None:
    arguments = {"seed": 3, "window": 200, "repeat": True, "rank": world_size - 1, "world_size": world_size}
    stream, batches, states = stream_of(folder, **arguments), [], []
    for batch in islice(stream, 20):
        batches.append(batch)
        states.append(json.loads(json.dumps(stream.state_dict())))
    for stop in range(0, 19, 4):
        restored = stream_of(folder, **arguments)
        restored.load_state_dict(states[stop])
        assert_same(list(islice(restored, 19 - stop)), batches[stop + 1 :])


def rank_streams(folder: Path, world_size: int, **arguments: Any) -> list[CachedStream]:
    """The streams of a job that reads 12 sequences per step."""
    size = BatchSize(sequences=12 // world_size)
    return [stream_of(folder, size, rank=rank, world_size=world_size, **arguments) for rank in range(world_size)]


def steps_of(streams: list[CachedStream], n: int) -> list[set[tuple[int, int]]]:
    """The places that all processes together read in each of the next steps."""
    taken = [[places([batch]) for batch in islice(stream, n)] for stream in streams]
    return [{place for part in step for place in part} for step in zip(*taken, strict=True)]


@pytest.mark.parametrize("n_processes", [2, 3, 4])
def test_processes_together_read_the_batches_of_one(folder: Path, n_processes: int) -> None:
    assert steps_of(rank_streams(folder, n_processes), 2) == steps_of(rank_streams(folder, 1), 2)


def test_every_epoch_has_its_own_order(folder: Path) -> None:
    once = list(stream_of(folder, seed=3))
    twice = list(islice(stream_of(folder, seed=3, repeat=True), 2 * len(once)))
    assert_same(twice[: len(once)], once)
    assert places(twice[len(once) :]) != places(once)
    assert sorted(places(twice[len(once) :])) == sorted(places(once))
    assert places(twice[len(once) :]) != places(list(stream_of(folder, seed=4)))


def test_one_hook_point_of_several_can_be_read(folder: Path) -> None:
    batch = next(iter(stream_of(folder, hook_points=("resid_pre.3",))))
    assert list(batch.activations) == ["resid_pre.3"]
    with pytest.raises(CacheError, match=r"no hook point resid_pre.2 .* it holds resid_pre.1, resid_pre.3"):
        stream_of(folder, hook_points=("resid_pre.2",))


def test_shards_are_memory_mapped(folder: Path) -> None:
    cache = ActivationCache(folder)
    tensor = cache.shard(0).activations["resid_pre.1"]
    maps = Path("/proc/self/maps").read_text()
    assert str(folder / "shard-00000.safetensors") in maps
    address = tensor.data_ptr()
    ranges = [line.split()[0].split("-") for line in maps.splitlines() if "shard-00000" in line]
    assert any(int(start, 16) <= address < int(end, 16) for start, end in ranges)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_comes_back_as_float32(
    config: ActivationConfig, folder: Path, tmp_path: Path, dtype: Any
) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=100, sequences_per_shard=4, dtype=dtype), tmp_path, device="cpu")
    half = next(iter(stream_of(tmp_path, seed=None))).activations["resid_pre.3"]
    full = next(iter(stream_of(folder, seed=None))).activations["resid_pre.3"]
    lengths = full.norm(dim=1, keepdim=True)
    assert half.dtype == torch.float32
    assert torch.equal(half, (full / lengths).to(getattr(torch, dtype)).float() * lengths)
    torch.testing.assert_close(half.norm(dim=1, keepdim=True), lengths, rtol=1e-2, atol=0)


def test_float32_is_what_the_model_computed(config: ActivationConfig, folder: Path) -> None:
    live = next(iter(LiveStream.open(config, device="cpu", batch=BatchSize(tokens=60))))
    shard = load_file(folder / "shard-00000.safetensors")
    assert torch.equal(shard["activations.resid_pre.3"][:60], live.activations["resid_pre.3"])
    assert "lengths.resid_pre.3" not in shard


def test_a_cache_of_an_earlier_version_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "cache")
    manifest = tmp_path / "cache/manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 1}))
    with pytest.raises(CacheError, match=r"format 1, of Quadric 0\.1; expected 2: harvest again"):
        ActivationCache(tmp_path / "cache")


def test_the_context_of_a_token_is_kept(config: ActivationConfig, folder: Path) -> None:
    cache = ActivationCache(folder)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(sequences=1))
    for forward in islice(stream.passes(), 3):
        for row in range(2):
            expected = forward.sequences.tokens[row]
            assert cache.sequence_tokens(forward.sequences.first + row).tolist() == expected.tolist()
    batch = next(iter(stream_of(folder)))
    for sequence, position, token in zip(batch.sequences, batch.positions, batch.token_ids, strict=True):
        assert cache.sequence_tokens(int(sequence))[position] == token
    with pytest.raises(CacheError, match="no sequence 9999"):
        cache.sequence_tokens(9999)


def test_a_cache_with_other_provenance_is_refused(config: ActivationConfig, folder: Path) -> None:
    ActivationCache(folder, expected=describe(config, device="cpu"))
    ActivationCache(folder, expected=describe(replace(config, hook_points="3"), device="cpu"))
    other = replace(config, hook_points="2", corpus=replace(config.corpus, seed=9))
    with pytest.raises(CacheError, match=r"corpus_settings.seed: stored 0, asked for 9; hook_points: .* resid_pre.2"):
        ActivationCache(folder, expected=describe(other, device="cpu"))


def test_verifying_finds_a_flipped_bit(config: ActivationConfig, tmp_path: Path) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=200, sequences_per_shard=4), tmp_path, device="cpu")
    cache = ActivationCache(tmp_path)
    cache.verify()
    path = tmp_path / "shard-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CacheError, match=r"shard-00001.safetensors is missing or damaged"):
        cache.verify()
    path.unlink()
    with pytest.raises(CacheError, match="missing or damaged"):
        list(CachedStream(cache, batch=BatchSize(tokens=60)))


def test_a_flipped_bit_is_found_before_it_is_trained_on(config: ActivationConfig, tmp_path: Path) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=200, sequences_per_shard=4), tmp_path, device="cpu")
    path = tmp_path / "shard-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CacheError, match=r"shard-00001.safetensors is missing or damaged; delete .* harvest again"):
        list(CachedStream(ActivationCache(tmp_path), batch=BatchSize(tokens=60)))


def test_each_shard_is_hashed_once_per_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    original = cache_module.sha256_of_file
    monkeypatch.setattr(cache_module, "sha256_of_file", lambda path: (hashed.append(path.name), original(path))[1])
    monkeypatch.setattr(cache_module, "OPEN_SHARDS", 1)  # so that shards are opened again and again
    cache = ActivationCache(folder)
    for _ in range(2):
        list(CachedStream(cache, batch=BatchSize(tokens=60)))
    assert sorted(hashed) == [shard.file for shard in cache.manifest.shards]


def rewritten(folder: Path, change: Any) -> Path:
    """Change the tensors of a shard, with a manifest that has the right size and hash for them."""
    path = folder / "shard-00001.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][1] |= {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.update({"activations.resid_pre.3": tensors["activations.resid_pre.3"][:1]}),
        lambda tensors: tensors.update({"activations.resid_pre.3": tensors["activations.resid_pre.3"][:, :1]}),
        lambda tensors: tensors.update({"documents": tensors["documents"][:1]}),
        lambda tensors: tensors.update({"sequence_tokens": tensors["sequence_tokens"][:1]}),
        lambda tensors: tensors.update({"lengths.resid_pre.3": tensors["lengths.resid_pre.3"][:1]}),
        lambda tensors: tensors.pop("lengths.resid_pre.3"),
        lambda tensors: tensors.pop("positions"),
    ],
    ids=["one row", "one column", "one document", "one sequence", "one length", "no lengths", "a column missing"],
)
def test_shapes_that_would_broadcast_are_refused(config: ActivationConfig, tmp_path: Path, change: Any) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=200, sequences_per_shard=4), tmp_path, device="cpu")
    with pytest.raises(CacheError, match=r"shard-00001.safetensors does not fit its manifest .*; delete"):
        list(CachedStream(ActivationCache(rewritten(tmp_path, change)), batch=BatchSize(tokens=60)))


@pytest.mark.parametrize(
    "change",
    [
        lambda shards: shards.__setitem__(1, shards[0]),
        lambda shards: shards[0].update(file="../outside.safetensors"),
        lambda shards: shards[1].update(file="part-0-of-2/shard-00001.safetensors"),
        lambda shards: shards[1].update(file="part-1-of-2/../shard-00001.safetensors"),
        lambda shards: shards[1].update(rows="many"),
        lambda shards: shards[1].update(first_sequence=0),
    ],
    ids=["twice", "outside", "of another part", "outside of a part", "not a number", "overlap"],
)
def test_a_manifest_with_other_shards_is_refused(config: ActivationConfig, tmp_path: Path, change: Any) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=200, sequences_per_shard=4), tmp_path, device="cpu")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    change(manifest["shards"])
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CacheError, match=r"manifest.json is damaged .*; delete the folder and harvest again"):
        ActivationCache(tmp_path)


@pytest.mark.parametrize("content", ["null", "", "[]", "{}", "1", "[" * 100_000, '{"format": 2}', '{"\\ud800": 1}'])
def test_a_manifest_that_is_none_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(CacheError, match=r"manifest.json is .*; delete the folder and harvest again$"):
        ActivationCache(tmp_path)


def test_a_cache_that_was_harvested_further_says_how_to_go_on(config: ActivationConfig, tmp_path: Path) -> None:
    harvest_to_folder(config, HarvestConfig(tokens=100, sequences_per_shard=4), tmp_path, device="cpu")
    before = CachedStream(ActivationCache(tmp_path), batch=BatchSize(tokens=60)).state_dict()
    harvest_to_folder(config, HarvestConfig(tokens=200, sequences_per_shard=4), tmp_path, device="cpu")
    stream = CachedStream(ActivationCache(tmp_path), batch=BatchSize(tokens=60))
    with pytest.raises(CacheError, match=r"held 100 .*; harvest --tokens 100 into another folder .* --cache"):
        stream.load_state_dict(before)


def test_a_folder_without_a_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"has no manifest.json; give a folder that `quadric harvest` wrote"):
        ActivationCache(tmp_path)


def test_a_repeating_rank_without_data_is_refused(folder: Path) -> None:
    with pytest.raises(CacheError, match="too few for world_size=5"):
        stream_of(folder, BatchSize(tokens=500), rank=4, world_size=5, repeat=True)
