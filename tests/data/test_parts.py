"""A cache that several workers harvest in parts, in any order and with interruptions (`quadric.data.harvesting`)."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quadric.data import ActivationCache, ActivationConfig, BatchSize, CachedStream, HarvestConfig, TokenRules
from quadric.data.corpus import CorpusConfig
from quadric.data.harvesting import HarvestReport, harvest_to_folder
from quadric.data.storage import CacheError, Manifest, read_manifest
from tests import fresh_process

pytestmark = pytest.mark.slow

STORAGE = HarvestConfig(tokens=300, sequences_per_shard=4)
Change = Callable[[ActivationConfig], ActivationConfig]


@pytest.fixture(scope="module")
def config(tiny_folder: Path, texts: Path) -> ActivationConfig:
    corpus = CorpusConfig(source=str(texts), block_length=16)
    return ActivationConfig(model=str(tiny_folder), hook_points="1", corpus=corpus, sequences_per_forward=2)


def whole(config: ActivationConfig, folder: Path, tokens: int = 300) -> Manifest:
    return harvest_to_folder(config, replace(STORAGE, tokens=tokens), folder, device="cpu").manifest


def part(config: ActivationConfig, folder: Path, shard: str, tokens: int = 300) -> HarvestReport:
    return harvest_to_folder(config, replace(STORAGE, tokens=tokens, shard=shard), folder, device="cpu")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def single(config: ActivationConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache harvested at once."""
    folder = tmp_path_factory.mktemp("caches") / "single"
    whole(config, folder)
    return folder


@pytest.fixture(scope="module")
def two_parts(config: ActivationConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache harvested in two parts; to be copied."""
    folder = tmp_path_factory.mktemp("caches") / "two"
    for shard in ("0/2", "1/2"):
        part(config, folder, shard)
    return folder


@pytest.fixture
def joined(two_parts: Path, tmp_path: Path) -> Path:
    """A copy of a cache in two parts."""
    return Path(shutil.copytree(two_parts, tmp_path / "joined"))


def test_parts_in_any_order_share_the_tokens(config: ActivationConfig, single: Path, tmp_path: Path) -> None:
    reports = [part(config, tmp_path, f"{number}/3", 301) for number in (1, 2, 0)]
    assert [report.manifest.rows for report in reports] == [100, 100, 101]
    assert [report.joined is not None for report in reports] == [False, False, True]
    cache = ActivationCache(tmp_path)
    cache.verify()
    assert len(cache) == 301
    whole_shards = {shard.file for shard in read_manifest(single).shards if not shard.cut}
    shards = [shard for shard in cache.manifest.shards if not shard.cut and Path(shard.file).name in whole_shards]
    assert len(shards) >= 3
    for shard in shards:
        assert (tmp_path / shard.file).read_bytes() == (single / Path(shard.file).name).read_bytes()


@pytest.mark.parametrize("unit", [{"tokens": 32}, {"sequences": 3}])
def test_every_sequence_of_joined_parts_is_read_once_with_its_text(two_parts: Path, unit: dict[str, int]) -> None:
    cache = ActivationCache(two_parts)
    batches = list(CachedStream(cache, batch=BatchSize(**unit)))
    places = [
        place for batch in batches for place in zip(batch.sequences.tolist(), batch.positions.tolist(), strict=True)
    ]
    assert len(places) == len(set(places)) == 300
    for batch in batches:
        for token, sequence, position in zip(batch.token_ids, batch.sequences, batch.positions, strict=True):
            assert cache.sequence_tokens(int(sequence))[position] == token


def test_parts_of_a_text_that_is_too_short_are_joined(config: ActivationConfig, tmp_path: Path) -> None:
    for shard in ("0/2", "1/2"):
        report = part(config, tmp_path / "parts", shard, 100_000)
    assert report.joined is not None
    assert report.joined.exhausted
    assert report.joined.counts == whole(config, tmp_path / "whole", 100_000).counts
    assert report.joined.tail_tokens == read_manifest(tmp_path / "whole").tail_tokens


def test_a_repeated_part_changes_nothing(config: ActivationConfig, joined: Path) -> None:
    before = content(joined)
    report = part(config, joined, "1/2")
    assert report.nothing_to_do
    assert report.joined is not None
    assert whole(config, joined).rows == 300, "a harvest of everything finds it there"
    assert content(joined) == before


def test_more_tokens_later(config: ActivationConfig, joined: Path, tmp_path: Path) -> None:
    assert part(config, joined, "0/2", 400).joined is None, "the other part has not been asked for as many"
    with pytest.raises(CacheError, match=r"the parts in .* are not joined; run any of them again"):
        ActivationCache(joined)
    assert part(config, joined, "1/2", 400).joined is not None
    for shard in ("0/2", "1/2"):
        part(config, tmp_path / "at-once", shard, 400)
    assert content(joined) == content(tmp_path / "at-once")


def test_a_missing_part_is_named(config: ActivationConfig, tmp_path: Path) -> None:
    report = part(config, tmp_path, "1/3")
    assert report.waiting is not None
    assert report.waiting.startswith("parts 0/3, 2/3 are missing or unfinished")
    waiting = part(config, tmp_path, "0/3").waiting
    assert waiting is not None
    assert re.match(r"part 2/3 is missing or unfinished in .*; run .* --tokens 300 --shard 2/3", waiting)
    with pytest.raises(CacheError, match="are not joined; run any of them again to see which are missing"):
        ActivationCache(tmp_path)


def test_a_part_that_is_lost_is_harvested_again(config: ActivationConfig, joined: Path, two_parts: Path) -> None:
    shutil.rmtree(joined / "part-1-of-2")
    with pytest.raises(
        CacheError, match=r"part-1-of-2/shard-00001.safetensors is missing .*; delete .*part-1-of-2 and"
    ):
        list(CachedStream(ActivationCache(joined), batch=BatchSize(tokens=32)))
    part(config, joined, "1/2")
    assert content(joined) == content(two_parts)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda config: replace(config, hook_points="2"),
            'hook_points: stored ["resid_pre.1"], asked for ["resid_pre.2"]',
        ),
        (lambda config: replace(config, sequences_per_forward=4), "sequences_per_forward: stored 2, asked for 4"),
        (
            lambda config: replace(config, rules=TokenRules(outliers="keep")),
            'outliers: stored "drop", asked for "keep"',
        ),
    ],
)
def test_parts_with_other_settings_are_refused(
    config: ActivationConfig, joined: Path, change: Change, words: str
) -> None:
    shutil.rmtree(joined / "part-1-of-2")
    before = content(joined)
    with pytest.raises(CacheError, match=f"part-0-of-2 does not match .*{re.escape(words)}"):
        part(change(config), joined, "1/2")
    assert content(joined) == before


def test_another_number_of_parts_is_refused(config: ActivationConfig, joined: Path) -> None:
    with pytest.raises(CacheError, match="holds part-0-of-2, which is none of 3 parts; give another folder"):
        part(config, joined, "1/3")


def test_parts_and_whole_harvests_do_not_mix(
    config: ActivationConfig, single: Path, joined: Path, tmp_path: Path
) -> None:
    with pytest.raises(CacheError, match="was harvested without --shard; leave --shard out"):
        part(config, single, "0/2")
    with pytest.raises(CacheError, match=r"holds parts of a cache \(part-0-of-2 …\); run every part with --tokens 400"):
        whole(config, joined, 400)
    (joined / "manifest.json").unlink()
    with pytest.raises(CacheError, match="holds parts of a cache"):
        whole(config, joined)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(CacheError, match=r"holds other files \(.* …\); give an empty or a new folder"):
        part(config, tmp_path, "0/2")


def test_a_joined_cache_of_0_2_is_read(joined: Path) -> None:
    """There the last shard was cut to the wanted number of tokens in the folder of the whole cache."""
    batches = [batch.token_ids.tolist() for batch in CachedStream(ActivationCache(joined), batch=BatchSize(tokens=32))]
    path = joined / "manifest.json"
    record = json.loads(path.read_text())
    last = record["shards"][-1]["file"]
    (joined / last).rename(joined / Path(last).name)
    record["shards"][-1]["file"] = Path(last).name
    path.write_text(json.dumps(record))
    cache = ActivationCache(joined)
    assert [batch.token_ids.tolist() for batch in CachedStream(cache, batch=BatchSize(tokens=32))] == batches


@pytest.mark.parametrize("wrong", ["3", "3/3", "-1/3", "1/0", "a/b", "1/3/5", ""])
def test_a_shard_that_is_none_is_one_line(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not one of N parts; give 0/N to N-1/N, e.g. 0/8 to 7/8"):
        HarvestConfig(tokens=10, shard=wrong)


def test_fewer_tokens_than_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens=7 is fewer than one per part; give at least 8"):
        HarvestConfig(tokens=7, shard="0/8")


KILLED = """
import os, signal, sys
from pathlib import Path
from quadric.data import ActivationConfig, HarvestConfig, harvesting, storage as files
from quadric.data.corpus import CorpusConfig

model, texts, folder, moment = sys.argv[1:]
write = files.write_atomically

def writing(path, data):
    if moment != "joining" and path.name == "shard-00003.safetensors":
        if moment == "inside":
            path.with_name(f".{path.name}.{os.getpid()}").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)
        os.kill(os.getpid(), signal.SIGKILL)
    if moment == "joining" and path == Path(folder) / "manifest.json":
        path.with_name(f".{path.name}.{os.getpid()}").write_bytes(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, data)

files.write_atomically = writing
corpus = CorpusConfig(source=texts, block_length=16)
config = ActivationConfig(model=model, hook_points="1", corpus=corpus, sequences_per_forward=2)
storage = HarvestConfig(tokens=300, sequences_per_shard=4, shard="1/2" if moment != "joining" else "0/2")
harvesting.harvest_to_folder(config, storage, Path(folder), device="cpu")
"""


@pytest.mark.parametrize("moment", ["inside", "after", "joining"])
def test_a_killed_part_is_repeated(
    config: ActivationConfig, two_parts: Path, tiny_folder: Path, texts: Path, tmp_path: Path, moment: str
) -> None:
    ours, other = ("0/2", "1/2") if moment == "joining" else ("1/2", "0/2")
    part(config, tmp_path / "parts", other)
    killed = fresh_process.run(KILLED, tiny_folder, texts, tmp_path / "parts", moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(CacheError, match="not joined; run any of them again"):
        ActivationCache(tmp_path / "parts")
    assert part(config, tmp_path / "parts", ours).joined is not None
    kept = {name: data for name, data in content(tmp_path / "parts").items() if not Path(name).name.startswith(".")}
    assert kept == content(two_parts)


AT_ONCE = """
import sys
from pathlib import Path
from quadric.data import ActivationConfig, HarvestConfig, harvest_to_folder
from quadric.data.corpus import CorpusConfig

model, texts, folder, shard = sys.argv[1:]
corpus = CorpusConfig(source=texts, block_length=16)
config = ActivationConfig(model=model, hook_points="1", corpus=corpus, sequences_per_forward=2)
storage = HarvestConfig(tokens=300, sequences_per_shard=4, shard=shard)
print(harvest_to_folder(config, storage, Path(folder), device="cpu").joined is not None)
"""


def test_parts_that_run_at_once_are_joined_by_one_of_them(
    two_parts: Path, tiny_folder: Path, texts: Path, tmp_path: Path
) -> None:
    workers = [fresh_process.start(AT_ONCE, tiny_folder, texts, tmp_path, f"{number}/2") for number in range(2)]
    ends = [worker.wait() for worker in workers]
    assert [end.returncode for end in ends] == [0, 0], "".join(end.stderr for end in ends)
    assert any("True" in end.stdout for end in ends)
    assert content(tmp_path) == content(two_parts)
