"""Evidence is read back as it was saved, and damage is reported."""

import dataclasses
import json
from pathlib import Path

import pytest

from quadric.evidence import Evidence, ModelLabels
from quadric.evidence.storage import replace_labels
from tests.evidence.test_collector import SETTINGS, assert_same, collected, finished

EVIDENCE = finished(collected())


def damaged(folder: Path, **changes: object) -> None:
    path = folder / "evidence.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    EVIDENCE.save(tmp_path)
    loaded = Evidence.load(tmp_path)
    assert_same(loaded, EVIDENCE)
    for name in ("settings", "provenance", "weights_sha256", "corpus_licence", "notes"):
        assert getattr(loaded, name) == getattr(EVIDENCE, name)


def test_saving_again_leaves_no_old_files(tmp_path: Path) -> None:
    EVIDENCE.save(tmp_path)
    finished(collected(settings=dataclasses.replace(SETTINGS, n_points=10))).save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4  # with the record of our files
    assert Evidence.load(tmp_path).settings.n_points == 10


def test_a_users_files_beside_the_evidence_stay(tmp_path: Path) -> None:
    mine = ("points-2024.safetensors", "rest-x.safetensors", "notes.txt")
    for name in mine:
        (tmp_path / name).write_bytes(b"mine")
    EVIDENCE.save(tmp_path)
    finished(collected(settings=dataclasses.replace(SETTINGS, n_points=10))).save(tmp_path)
    assert all((tmp_path / name).read_bytes() == b"mine" for name in mine)


def test_labels_can_be_replaced_alone(tmp_path: Path) -> None:
    EVIDENCE.save(tmp_path)
    written = ModelLabels(texts={2: "a shape"}, model="m", endpoint="http://x", prompt_sha256="0")
    replace_labels(tmp_path, dataclasses.replace(EVIDENCE.labels, from_model=written))
    labels = Evidence.load(tmp_path).labels
    assert labels.from_model == written
    assert labels.of(2) == "a shape"
    assert labels.of(1) == EVIDENCE.labels.texts[1]


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no evidence\.json"):
        Evidence.load(tmp_path)
    EVIDENCE.save(tmp_path)
    (points,) = tmp_path.glob("points-*")
    whole = points.read_bytes()
    points.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="bytes, expected"):
        Evidence.load(tmp_path)
    points.write_bytes(b"\xff" * len(whole))
    with pytest.raises(ValueError, match="is damaged"):
        Evidence.load(tmp_path)
    points.unlink()
    with pytest.raises(FileNotFoundError, match="is missing"):
        Evidence.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "else"}, "does not describe"),
        ({"format_version": 3}, "newer than"),
        ({"format_version": 1}, "collect the evidence again"),
        ({"unknown": 1}, "unknown keys"),
        ({"n_tokens": "many"}, "n_tokens='many'"),
        ({"settings": {"n_points": 3}}, "lacks the keys"),
    ],
)
def test_a_record_that_was_changed_is_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    EVIDENCE.save(tmp_path)
    damaged(tmp_path, **change)
    with pytest.raises(ValueError, match=complaint):
        Evidence.load(tmp_path)
