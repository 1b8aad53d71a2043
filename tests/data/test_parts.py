"""A cache harvested in parts, in any order and with interruptions, has the bytes of a cache harvested at once."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quadric.data import ActivationCache, ActivationConfig, BatchSize, CachedStream, HarvestConfig, TokenRules
from quadric.data.corpus import CorpusConfig
from quadric.data.harvesting import HarvestReport, harvest_to_folder
from quadric.data.parts import Part, is_needed, pessimistic, read_parts
from quadric.data.settings import HarvestPart
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


def assert_same(joined: Path, single: Path) -> None:
    """The same files with the same bytes, in the same order, with the same accounts."""
    ours, theirs = read_manifest(joined), read_manifest(single)
    plain = tuple(replace(shard, file=Path(shard.file).name) for shard in ours.shards)
    assert replace(ours, shards=plain) == theirs
    for mine, its in zip(ours.shards, theirs.shards, strict=True):
        assert (joined / mine.file).read_bytes() == (single / its.file).read_bytes()
    ActivationCache(joined).verify()


def separate(config: ActivationConfig) -> ActivationConfig:
    return replace(config, corpus=replace(config.corpus, packing="separate", block_length=64))


def clipped(config: ActivationConfig) -> ActivationConfig:
    return replace(config, rules=TokenRules(outliers="clip", outlier_factor=1.2))


def many_outliers(config: ActivationConfig) -> ActivationConfig:
    return replace(config, rules=TokenRules(outlier_factor=1.05))


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)], ids=["backwards", "mixed"])
def test_parts_in_any_order_equal_one_harvest(
    config: ActivationConfig, single: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    reports = [part(config, tmp_path, f"{number}/3") for number in order]
    assert [report.joined is not None for report in reports] == [False, False, True]
    assert_same(tmp_path, single)


@pytest.mark.parametrize(
    ("change", "tokens"),
    [(separate, 100_000), (clipped, 61), (many_outliers, 1), (many_outliers, 300)],
)
def test_parts_equal_one_harvest_whatever_is_dropped(
    config: ActivationConfig, tmp_path: Path, change: Change, tokens: int
) -> None:
    config = change(config)
    whole(config, tmp_path / "whole", tokens)
    for shard in ("0/2", "1/2", "0/2"):  # the first one again, should it have been too optimistic
        report = part(config, tmp_path / "parts", shard, tokens)
    assert report.joined is not None
    assert_same(tmp_path / "parts", tmp_path / "whole")


def test_batches_of_joined_parts_are_those_of_one_harvest(two_parts: Path, single: Path) -> None:
    assert_same(two_parts, single)
    for unit in ({"tokens": 32}, {"sequences": 3}):
        ours, theirs = (
            list(CachedStream(ActivationCache(folder), batch=BatchSize(**unit))) for folder in (two_parts, single)
        )
        assert [batch.token_ids.tolist() for batch in ours] == [batch.token_ids.tolist() for batch in theirs]


def test_a_repeated_part_changes_nothing(config: ActivationConfig, joined: Path) -> None:
    part(config, joined, "0/2")  # by now it knows exactly what the other one holds
    before = {path: path.read_bytes() for path in joined.rglob("*") if path.is_file()}
    report = part(config, joined, "1/2")
    assert report.nothing_to_do
    assert report.joined is not None
    assert {path: path.read_bytes() for path in joined.rglob("*") if path.is_file()} == before
    assert whole(config, joined).rows == 300, "a harvest of everything finds it there"


def test_more_tokens_later_equal_one_harvest_of_them(config: ActivationConfig, joined: Path, tmp_path: Path) -> None:
    first = part(config, joined, "0/2", 400)
    assert first.joined is None, "the other part has not been asked for as many"
    assert len(ActivationCache(joined)) == 300, "the shorter cache stays usable"
    assert part(config, joined, "1/2", 400).joined is not None
    whole(config, tmp_path / "whole", 400)
    assert_same(joined, tmp_path / "whole")
    assert len(list(joined.glob("shard-*"))) == 1, "the last file of the shorter cache is gone"
    with pytest.raises(CacheError, match=r"part 0/2 .* is of 400 tokens, asked for 300; give --tokens 400"):
        part(config, joined, "0/2", 300)


def test_a_missing_part_is_named_by_the_reader(config: ActivationConfig, single: Path, tmp_path: Path) -> None:
    report = part(config, tmp_path, "1/3")
    assert report.waiting is not None
    assert report.waiting.startswith("parts 0/3, 2/3 are missing or unfinished")
    part(config, tmp_path, "0/3")
    with pytest.raises(CacheError, match=r"^part 2/3 is missing or unfinished in .*; run .* --tokens 300 --shard 2/3"):
        ActivationCache(tmp_path)
    part(config, tmp_path, "2/3")
    assert_same(tmp_path, single)


def test_a_part_that_is_lost_is_harvested_again(config: ActivationConfig, joined: Path, single: Path) -> None:
    shutil.rmtree(joined / "part-1-of-2")
    with pytest.raises(
        CacheError, match=r"part-1-of-2/shard-00001.safetensors is missing .*; delete .*part-1-of-2 and"
    ):
        list(CachedStream(ActivationCache(joined), batch=BatchSize(tokens=32)))
    part(config, joined, "1/2")
    assert_same(joined, single)


def test_an_unfinished_part_is_named_by_the_reader(joined: Path) -> None:
    (joined / "manifest.json").unlink()
    path = joined / "part-1-of-2" / "part.json"
    record = json.loads(path.read_text())
    record["shards"] = record["shards"][:1]
    path.write_text(json.dumps(record))
    with pytest.raises(CacheError, match=r"^part 1/2 is missing or unfinished"):
        ActivationCache(joined)


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
    with pytest.raises(CacheError, match=f"parts 0/2 and 1/2 in .* do not belong together .*{re.escape(words)}"):
        part(change(config), joined, "1/2")
    assert [each.place for each in read_parts(joined)] == [HarvestPart(0, 2)], "nothing was written"


def test_parts_copied_together_that_do_not_fit_are_refused_by_the_reader(joined: Path) -> None:
    (joined / "manifest.json").unlink()
    path = joined / "part-1-of-2" / "part.json"
    path.write_text(path.read_text().replace('"outliers": "drop"', '"outliers": "keep"'))
    with pytest.raises(CacheError, match=r"parts 0/2 and 1/2 .* do not belong together .*outliers"):
        ActivationCache(joined)


def test_another_number_of_parts_is_refused(config: ActivationConfig, joined: Path) -> None:
    with pytest.raises(CacheError, match="parts: stored 2, asked for 3"):
        part(config, joined, "1/3")


def test_parts_and_whole_harvests_do_not_mix(
    config: ActivationConfig, single: Path, joined: Path, tmp_path: Path
) -> None:
    with pytest.raises(CacheError, match="was harvested without --shard; leave --shard out"):
        part(config, single, "0/2")
    with pytest.raises(CacheError, match=r"holds 300 of 400 tokens, in 2 parts; run every part again: --tokens 400"):
        whole(config, joined, 400)
    (joined / "manifest.json").unlink()
    with pytest.raises(CacheError, match="holds parts of a cache; give --shard 0/2"):
        whole(config, joined)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(CacheError, match=r"holds other files \(.* …\); give an empty or a new folder"):
        part(config, tmp_path, "0/2")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(tokens="many"),
        lambda record: record.pop("tokens"),
        lambda record: record.pop("layout"),
        lambda record: record.update(extra=1),
        lambda record: record["shards"][0].update(file="shard-00000.safetensors"),
        lambda record: record["shards"][0].update(first_sequence=0),
    ],
    ids=["tokens", "no tokens", "no layout", "unknown", "file of another part", "sequence of another part"],
)
def test_a_damaged_part_is_one_line(config: ActivationConfig, joined: Path, change: Callable[[Any], Any]) -> None:
    (joined / "manifest.json").unlink()
    path = joined / "part-1-of-2" / "part.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    for work in (lambda: ActivationCache(joined), lambda: part(config, joined, "0/2")):
        with pytest.raises(CacheError, match=r"part.json is damaged \(.*\); delete the folder and harvest again$"):
            work()


@pytest.mark.parametrize("wrong", ["3", "3/3", "-1/3", "1/0", "a/b", "1/3/5", ""])
def test_a_shard_that_is_none_is_one_line(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not one of N parts; give 0/N to N-1/N, e.g. 0/8 to 7/8"):
        HarvestConfig(tokens=1, shard=wrong)


KILLED = """
import os, signal, sys
from pathlib import Path
from quadric.data import ActivationConfig, HarvestConfig, harvesting, parts, storage as files
from quadric.data.corpus import CorpusConfig

model, texts, folder, moment = sys.argv[1:]
write = files.write_atomically

def writing(path, data):
    if path.name == "shard-00003.safetensors":
        if moment == "inside":
            path.with_name(f".{path.name}.{os.getpid()}").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, data)

files.write_atomically = writing
if moment == "joining":
    files.write_atomically = write
    parts.write_manifest = lambda folder, manifest: os.kill(os.getpid(), signal.SIGKILL)
corpus = CorpusConfig(source=texts, block_length=16)
config = ActivationConfig(model=model, hook_points="1", corpus=corpus, sequences_per_forward=2)
storage = HarvestConfig(tokens=300, sequences_per_shard=4, shard="0/3")
harvesting.harvest_to_folder(config, storage, Path(folder), device="cpu")
"""


@pytest.mark.parametrize("moment", ["inside", "after", "joining"])
def test_a_killed_part_is_repeated(
    config: ActivationConfig, single: Path, tiny_folder: Path, texts: Path, tmp_path: Path, moment: str
) -> None:
    for shard in ("2/3", "1/3"):
        part(config, tmp_path / "parts", shard)
    killed = fresh_process.run(KILLED, tiny_folder, texts, tmp_path / "parts", moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(CacheError, match="not joined; run one of them again" if moment == "joining" else "^part 0/3"):
        ActivationCache(tmp_path / "parts")
    assert part(config, tmp_path / "parts", "0/3").joined is not None
    assert_same(tmp_path / "parts", single)


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
    single: Path, tiny_folder: Path, texts: Path, tmp_path: Path
) -> None:
    workers = [fresh_process.start(AT_ONCE, tiny_folder, texts, tmp_path, f"{number}/3") for number in range(3)]
    ends = [worker.wait() for worker in workers]
    assert [end.returncode for end in ends] == [0, 0, 0], "".join(end.stderr for end in ends)
    assert any("True" in end.stdout for end in ends)
    assert_same(tmp_path, single)


def test_damage_is_not_hidden_by_cutting_the_last_file(config: ActivationConfig, joined: Path) -> None:
    last = read_manifest(joined).shards[-1].file
    (source,) = joined.glob(f"part-*/{last}")
    (joined / last).unlink()
    with pytest.raises(CacheError, match=f"{last} is missing or damaged; harvest --shard again with one of the parts"):
        ActivationCache(joined).verify()
    part(config, joined, "0/2")
    ActivationCache(joined).verify()
    data = bytearray(source.read_bytes())
    data[-1] ^= 1
    source.write_bytes(data)
    with pytest.raises(CacheError, match=r"part-.*/shard-.* is missing or damaged; delete .*part-.* and harvest again"):
        part(config, joined, "0/2")


def part_with(rows: list[int], shard: str, tokens: int, fitting: Manifest) -> Part:
    shards = tuple(replace(fitting.shards[0], rows=each) for each in rows)
    return Part(place=HarvestPart.parse(shard), tokens=tokens, manifest=replace(fitting, shards=shards))


def test_a_part_goes_on_until_the_others_have_surely_enough(single: Path) -> None:
    fitting = read_manifest(single)
    even = [100] * 5  # files 0, 4, … 16 of four parts, so the next one is file 20
    assert is_needed(part_with(even, "0/4", 2001, fitting), {})
    assert not is_needed(part_with(even, "0/4", 2000, fitting), {}), "equal files leave no doubt"
    assert is_needed(part_with([80, 120, 80, 120, 100], "0/4", 2000, fitting), {}), "unequal ones do"
    others = {number: 50 for number in range(20) if number % 4}
    assert is_needed(part_with(even, "0/4", 1251, fitting), others)
    assert not is_needed(part_with(even, "0/4", 1250, fitting), others), "what is known is counted exactly"


def test_the_estimate_is_rarely_above_the_truth() -> None:
    """Of 2,000 harvests with files that differ much, fewer than one in a hundred is told too many rows."""
    rows = np.random.default_rng(0).poisson(40, size=(2000, 240)) * 25
    too_many = sum(pessimistic(each[:30].tolist(), 210) > each[30:].sum() for each in rows)
    assert too_many < 20
    assert pessimistic([100, 100, 100], 7) == 700
    assert pessimistic([], 7) == 0
    assert pessimistic([100, 900], 7) == 0, "never negative"
