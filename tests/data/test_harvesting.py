"""A cache is written shard by shard; tests/faults/test_killed_processes.py kills harvests while they write."""

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from quadric._io.files import DiskFullError
from quadric._io.locks import LOCK, BusyError
from quadric.data import (
    ActivationConfig,
    BatchSize,
    HarvestConfig,
    LiveStream,
    TokenRules,
    describe,
    harvest_to_folder,
    live_stream,
)
from quadric.data.corpus import CorpusConfig
from quadric.data.forward import capture
from quadric.data.harvesting import fill_folder
from quadric.data.hook_points import HookPoint
from quadric.data.models import LanguageModel
from quadric.data.reading import harvest
from quadric.data.storage import CacheError, Layout, Manifest, read_manifest, stored_vectors
from tests.data.tiny import tiny_model

STORAGE = HarvestConfig(tokens=600, sequences_per_shard=4)


def config_of(model: Path, texts: Path) -> ActivationConfig:
    corpus = CorpusConfig(source=str(texts), block_length=32)
    return ActivationConfig(model=str(model), hook_points="1,3", corpus=corpus, sequences_per_forward=2)


@pytest.fixture
def config(tiny_folder: Path, texts: Path) -> ActivationConfig:
    return config_of(tiny_folder, texts)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def run(config: ActivationConfig, folder: Path, storage: HarvestConfig = STORAGE) -> Manifest:
    return harvest_to_folder(config, storage, folder, device="cpu").manifest


def test_a_shard_holds_the_activations_of_the_live_stream(config: ActivationConfig, tmp_path: Path) -> None:
    manifest = run(config, tmp_path / "cache", replace(STORAGE, dtype="float32"))
    (live,) = [
        batch for batch in LiveStream.open(config, device="cpu", batch=BatchSize(tokens=600)) if len(batch) == 600
    ][:1]
    shards = [load_file(tmp_path / "cache" / shard.file) for shard in manifest.shards]
    for name in ("resid_pre.1", "resid_pre.3"):
        stored = torch.cat([shard[f"activations.{name}"] for shard in shards])
        assert torch.equal(stored, live.activations[name])
    for column in ("token_ids", "documents", "sequences", "positions"):
        stored = torch.cat([shard[column] for shard in shards])
        assert stored.tolist() == getattr(live, column).tolist()


def test_exactly_the_wanted_number_is_stored_and_accounted_for(config: ActivationConfig, tmp_path: Path) -> None:
    manifest = run(config, tmp_path / "cache")
    assert manifest.rows == 600
    assert [shard.cut for shard in manifest.shards] == [False] * (len(manifest.shards) - 1) + [True]
    assert len(manifest.shards) > 3
    counts = manifest.counts
    assert counts.positions == counts.kept + counts.special + counts.outliers + counts.bos + counts.padding
    assert counts.kept >= 600
    assert manifest == read_manifest(tmp_path / "cache")
    assert not manifest.exhausted


def test_progress_ends_at_the_wanted_number(config: ActivationConfig, tmp_path: Path) -> None:
    states: list[tuple[str, int, int, str]] = []
    harvest_to_folder(
        config, STORAGE, tmp_path / "cache", device="cpu", on_progress=lambda *state: states.append(state)
    )
    assert states[0] == ("harvest", 0, 600, "tokens")
    assert states == sorted(states)
    assert states[-1] == ("harvest", 600, 600, "tokens")


def test_a_second_call_has_nothing_to_do(config: ActivationConfig, tmp_path: Path) -> None:
    first = harvest_to_folder(config, STORAGE, tmp_path / "cache", device="cpu")
    before = content(tmp_path / "cache")
    second = harvest_to_folder(config, STORAGE, tmp_path / "cache", device="cpu")
    assert not first.nothing_to_do
    assert second.nothing_to_do
    assert harvest_to_folder(config, replace(STORAGE, tokens=100), tmp_path / "cache", device="cpu").nothing_to_do
    assert content(tmp_path / "cache") == before


def test_asking_for_more_tokens_later_gives_the_same_files(config: ActivationConfig, tmp_path: Path) -> None:
    run(config, tmp_path / "twice", replace(STORAGE, tokens=250))
    report = harvest_to_folder(config, STORAGE, tmp_path / "twice", device="cpu")
    assert 0 < report.tokens_before < 600
    run(config, tmp_path / "once")
    assert content(tmp_path / "twice") == content(tmp_path / "once")


def test_a_harvest_ends_with_the_corpus(config: ActivationConfig, tmp_path: Path) -> None:
    manifest = run(config, tmp_path / "cache", replace(STORAGE, tokens=10**9))
    assert manifest.exhausted
    assert 0 < manifest.tail_tokens < 32
    assert manifest.rows == manifest.counts.kept
    assert harvest_to_folder(config, replace(STORAGE, tokens=10**9), tmp_path / "cache", device="cpu").nothing_to_do


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hook_points": "2"}, r'hook_points: stored \["resid_pre.1", "resid_pre.3"\], asked for \["resid_pre.2"\]'),
        ({"rules": TokenRules(outliers="keep")}, 'token_rules.outliers: stored "drop", asked for "keep"'),
        ({"sequences_per_forward": 4}, "sequences_per_forward: stored 2, asked for 4"),
    ],
)
def test_another_config_is_refused_and_the_differences_are_named(
    config: ActivationConfig, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    run(config, tmp_path / "cache", replace(STORAGE, tokens=10))
    with pytest.raises(CacheError, match=words):
        run(replace(config, **change), tmp_path / "cache", replace(STORAGE, tokens=10))


def test_other_text_and_other_storage_are_refused(config: ActivationConfig, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one text " * 100)
    config = replace(config, corpus=CorpusConfig(source=str(text), block_length=32, held_out_fraction=0.0))
    run(config, tmp_path / "cache", replace(STORAGE, tokens=10))
    with pytest.raises(CacheError, match='dtype: stored "float16", asked for "bfloat16"'):
        run(config, tmp_path / "cache", replace(STORAGE, tokens=10, dtype="bfloat16"))
    text.write_text("another text " * 100)
    with pytest.raises(CacheError, match='corpus_revision: stored "sha256:'):
        run(config, tmp_path / "cache", replace(STORAGE, tokens=10))


def test_a_full_disk_is_a_one_line_error_and_earlier_shards_stay_valid(
    config: ActivationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, synced, really = tmp_path / "cache", [], os.fsync

    def full_at_the_third_shard(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append(name)
        if "shard-00002" in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(descriptor)

    monkeypatch.setattr(os, "fsync", full_at_the_third_shard)
    with pytest.raises(DiskFullError, match=r"no room for shard-00002.* free some space and run the same") as caught:
        run(config, folder)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert sorted(content(folder)) == ["manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"]
    assert len(read_manifest(folder).shards) == 2
    run(config, folder)
    run(config, tmp_path / "whole")
    assert content(folder) == content(tmp_path / "whole")


def test_an_activation_larger_than_float16_is_stored_by_default(tmp_path: Path) -> None:
    """The residual stream of Gemma 3 has coordinates of 95,703; those of float16 end at 65,504."""
    model = tiny_model()
    model.causal.get_input_embeddings().weight.mul_(1e6 / 2)
    texts = ["The quick brown fox jumps over the lazy dog."] * 3
    computed = harvest(model, texts, layer=0, progress=False).vectors
    assert computed.abs().max() > 95_703
    assert computed.norm(dim=1).max() > 1e6
    stream = harvest(model, texts, layer=0, out=tmp_path, progress=False).stream(batch_tokens=len(computed), seed=None)
    stored = next(iter(stream)).activations["resid_pre.0"]
    assert read_manifest(tmp_path).layout.dtype == "float16"
    assert stored.abs().max() > 95_703
    cosine = torch.cosine_similarity(stored.double(), computed.double())
    assert (1 - cosine).max() < 1e-6


@pytest.mark.parametrize("huge", [95_703.0, 999_999.99], ids=["of Gemma 3", "all of the length"])
def test_one_huge_coordinate_leaves_the_small_ones_intact(huge: float) -> None:
    """Next to it the others may be subnormal numbers of float16, which err by at most half the smallest, 2⁻²⁵."""
    x = torch.randn(4, 640, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, 7] = 0
    x *= (1e12 - huge**2) ** 0.5 / x.norm(dim=1, keepdim=True)
    x[:, 7] = huge
    layout = Layout(dtype="float16", unit_vectors=True, d_model=640, sequences_per_forward=1, sequences_per_shard=1)
    stored = stored_vectors(x.float(), layout, "resid_pre.1")
    torch.testing.assert_close(stored["lengths.resid_pre.1"], torch.full((4,), 1e6))
    errors = (stored["activations.resid_pre.1"].double() - x / 1e6).abs()
    assert (errors <= 2**-11 * (x / 1e6).abs() + 2**-25).all()


def test_two_harvests_at_once_are_refused(config: ActivationConfig, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="is being written by another process; wait for it"):
            run(config, folder)
    finally:
        os.close(descriptor)
    assert run(config, folder).rows == 600  # the lock file of a dead process is no lock
    assert not (folder / LOCK).exists()


def test_a_folder_with_other_files_is_left_alone(config: ActivationConfig, tmp_path: Path) -> None:
    """Even one whose names look like those of a killed harvest."""
    mine = {
        "thesis.tex": b"years of work",
        "chapter.partial": b"months of work",
        ".shard-00000.safetensors.123": b"a day of work",
    }
    for name, text in mine.items():
        (tmp_path / name).write_bytes(text)
    with pytest.raises(CacheError, match=r"holds other files \(chapter.partial"):
        run(config, tmp_path)
    assert content(tmp_path) == mine


def test_a_harvest_that_cannot_begin_makes_nothing(config: ActivationConfig, tmp_path: Path) -> None:
    storage = replace(STORAGE, dtype="float16")

    def fail() -> LiveStream:
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        fill_folder(tmp_path / "a/b", storage, describe(config, device="cpu"), 32, 2, fail)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_shard_is_an_error(config: ActivationConfig, tmp_path: Path) -> None:
    run(config, tmp_path / "cache")
    (tmp_path / "cache" / "shard-00001.safetensors").unlink()
    with pytest.raises(CacheError, match=r"shard-00001.safetensors is missing or damaged"):
        run(config, tmp_path / "cache")


def test_a_damaged_manifest_is_an_error(config: ActivationConfig, tmp_path: Path) -> None:
    run(config, tmp_path / "cache", replace(STORAGE, tokens=10))
    path = tmp_path / "cache" / "manifest.json"
    path.write_text(path.read_text()[:100])
    with pytest.raises(CacheError, match=r"manifest.json is not valid JSON .*; delete the folder and harvest again"):
        run(config, tmp_path / "cache", replace(STORAGE, tokens=10))


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"sequences_per_shard": 0}])
def test_invalid_amounts_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}=0"):
        replace(STORAGE, **wrong)


@pytest.mark.parametrize("tokens", [1, 90, 600])
def test_no_forward_pass_runs_after_the_last_token(
    config: ActivationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    read = []

    def counted(model: LanguageModel, points: list[HookPoint], given: torch.Tensor, mask: torch.Tensor) -> object:
        read.append(len(given))
        return capture(model, points, given, mask)

    monkeypatch.setattr(live_stream, "capture", counted)
    manifest = run(config, tmp_path / "cache", replace(STORAGE, tokens=tokens))
    assert manifest.rows == tokens
    assert sum(shard.sequences for shard in manifest.shards) == sum(read)
