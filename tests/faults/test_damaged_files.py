"""Every file that Quadric reads, damaged in every way: it is refused in one line, or read as it was written."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quadric
from quadric._io.records import record_from_json
from quadric.data import ActivationCache, BatchSize, CachedStream
from quadric.evaluation.record import rows_in_run
from quadric.evidence import Evidence
from quadric.evidence.collecting import STATE, State
from quadric.evidence.collector import Collector
from quadric.evidence.endpoints import AnswerError, stored_answers
from quadric.evidence.labelling import ANSWERS, label_in
from quadric.evidence.record import EvidenceSettings
from quadric.geometry.dictionary_geometry import stored_geometry
from quadric.model.storage import read_folder, weights_sha256
from quadric.run.config import read_run_config
from quadric.run.running import PROVENANCE, _read_provenance
from quadric.run.telemetry import METRICS, read_metrics
from quadric.run.viewing import route
from quadric.train.checkpoints import newest_checkpoint
from quadric.viewer.serve import site_folder
from tests.faults.damage import damaged_bytes, damaged_json, outcome, replaced

Count = Callable[[], None]
EXAMPLES = 100


def each_damage(path: Path, check: Callable[[], None], count: Count, examples: int = EXAMPLES) -> None:
    """Damage the file again and again; `check` reads it and raises if what it gets is wrong."""
    whole = path.read_bytes()
    is_json = path.suffix == ".json"

    @settings(settings.get_profile("faults"), max_examples=examples)
    @given(damaged_json(whole) if is_json else damaged_bytes(whole))
    def try_one(content: bytes) -> None:
        count()
        with replaced(path, content):
            check()

    try_one()


def digest(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(torch.as_tensor(array).contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def refused(result: Any) -> bool:
    return isinstance(result, Exception)


def the(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


@pytest.fixture
def autoencoder(whole: Path) -> Path:
    return the(whole, "run/autoencoders/*")


@pytest.mark.parametrize("name", ["config.json", "weights-*.safetensors"])
def test_an_autoencoder(autoencoder: Path, name: str, count: Count, tmp_path: Path) -> None:
    path = the(autoencoder, name)
    expected = weights_sha256(quadric.load(autoencoder))
    victim = autoencoder.parents[2] / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "file").write_text("precious")

    def check() -> None:
        found = outcome(lambda: quadric.load(autoencoder), path)
        assert refused(found) or weights_sha256(found) == expected
        assert [each.read_text() for each in victim.iterdir()] == ["precious"]

    each_damage(path, check, count)


def test_saving_over_a_damaged_autoencoder(autoencoder: Path, count: Count) -> None:
    """Whatever its config names, nothing but its own weights is deleted."""
    path = autoencoder / "config.json"
    ae = quadric.BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic")
    beside = [each for each in autoencoder.parent.parent.rglob("*") if each.is_file()]
    own = {each: each.read_bytes() for each in autoencoder.iterdir()}

    def check() -> None:
        outcome(lambda: ae.save_pretrained(autoencoder), path)
        assert all(each.is_file() for each in beside if each.parent != autoencoder)
        for each in autoencoder.iterdir():
            if each not in own:
                each.unlink()
        for each, content in own.items():
            if each != path:
                each.write_bytes(content)

    each_damage(path, check, count, examples=30)


@pytest.mark.parametrize("name", ["manifest.json", "shard-00001.safetensors"])
def test_a_cache(whole: Path, name: str, count: Count) -> None:
    folder = whole / "cache"

    def read() -> str:
        batches = list(CachedStream(ActivationCache(folder), batch=BatchSize(tokens=50), prefetch=0))
        return digest(*(column for batch in batches for column in (batch.activations["resid_pre.2"], batch.documents)))

    expected = read()

    def check() -> None:
        found = outcome(read, folder / name)
        assert refused(found) or found == expected

    each_damage(folder / name, check, count)


@pytest.mark.parametrize("name", ["state.json", "*.safetensors"])
def test_a_checkpoint(whole: Path, name: str, count: Count) -> None:
    folder = whole / "run/checkpoints"
    newest = folder / "step-00000004"

    def read() -> tuple[int, Any, str]:
        checkpoint, damaged = newest_checkpoint(folder)
        assert checkpoint is not None
        assert (checkpoint.step == 4) == (not damaged)  # a damaged one is passed over and said
        assert all(each.folder == newest and "\n" not in each.reason for each in damaged)
        (tensors,) = checkpoint.learners.values()
        return checkpoint.step, checkpoint.cursors, digest(*(value for _, value in sorted(tensors.items())))

    expected = read()

    def check() -> None:
        found = read()
        assert found[0] == 2 or found == expected

    each_damage(the(newest, name), check, count)


@pytest.mark.parametrize("name", ["evidence.json", "points-*.safetensors", "rest-*.safetensors"])
def test_evidence(whole: Path, name: str, count: Count) -> None:
    folder = the(whole, "run/evidence/*")

    def read() -> str:
        evidence = Evidence.load(folder)
        return digest(evidence.points.values, evidence.points.places, evidence.statistics.density)

    expected = read()

    def check() -> None:
        found = outcome(read, the(folder, name))
        assert refused(found) or found == expected

    each_damage(the(folder, name), check, count)


def test_a_collection_that_was_interrupted(whole: Path, autoencoder: Path, count: Count, tmp_path: Path) -> None:
    stream = CachedStream(ActivationCache(whole / "cache"), batch=BatchSize(tokens=50), prefetch=0)
    settings_ = EvidenceSettings(n_points=5)

    def state() -> State:
        ae: Any = quadric.load(autoencoder)
        return State(tmp_path, Collector(ae, settings_), stream)

    begun = state()
    begun.collector.calibrate(next(iter(stream)).activations[stream.hook_points[0]])
    begun.save(50)

    def check() -> None:
        found = outcome(lambda: state().restore(), tmp_path / STATE)
        assert refused(found) or found[0] == 50

    each_damage(tmp_path / STATE, check, count)


@pytest.mark.parametrize("name", ["geometry.json", "tensors-*.safetensors"])
def test_geometry_is_computed_again(whole: Path, autoencoder: Path, name: str, count: Count) -> None:
    folder = the(whole, "run/geometry/*")
    ae = quadric.load(autoencoder)
    expected = stored_geometry(ae, folder)
    assert expected is not None

    def check() -> None:
        found = stored_geometry(ae, folder)
        assert found is None or torch.equal(found.eigenvalues, expected.eigenvalues)

    each_damage(the(folder, name), check, count)


READERS: dict[str, Callable[[Path], Any]] = {
    "run/run.json": lambda path: asdict(read_run_config(path.parent)),
    f"run/{PROVENANCE}": _read_provenance,
    f"run/{METRICS}": lambda path: read_metrics(path.parent),
    "run/evaluation.json": lambda path: rows_in_run(path.parent),
    "run/site/data/site.json": lambda path: route(site_folder(path.parents[1]), "x", 1),
}


@pytest.mark.parametrize("name", READERS)
def test_a_small_file(whole: Path, name: str, count: Count) -> None:
    """Settings that a person may edit: they are checked, and what passes is used as it is."""
    path = whole / name
    each_damage(path, lambda: outcome(lambda: READERS[name](path), path), count)


def test_labels_of_earlier_runs(tmp_path: Path, count: Count) -> None:
    path = tmp_path / ANSWERS
    path.write_text("".join(json.dumps({"key": f"{n:064x}", "label": f"label {n}"}) + "\n" for n in range(5)))

    def check() -> None:
        for answer in stored_answers(path, "label").values():
            with suppress(AnswerError):  # requested again
                assert "\x1b" not in label_in(json.dumps({"label": answer}))

    each_damage(path, check, count)


@settings(settings.get_profile("faults"), max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_at_all_as_a_record(values: Any) -> None:
    from quadric.train.settings import Cell, Training

    for read in (partial(record_from_json, Training), Cell.from_json):
        with pytest.raises(ValueError, match=r"somewhere") as caught:
            read(values, "somewhere")
        assert "\n" not in str(caught.value)


def test_a_folder_of_another_kind(whole: Path, tmp_path: Path, count: Count) -> None:
    """Every loader on every folder."""
    loaders = [quadric.load, read_folder, read_run_config, ActivationCache, Evidence.load, site_folder]
    folders = [each for each in [whole, *whole.rglob("*")] if each.is_dir()]
    for folder in [*folders, tmp_path / "nowhere", whole / "run/run.json"]:
        for load in loaders:
            count()
            outcome(partial(load, folder), folder / "any")
