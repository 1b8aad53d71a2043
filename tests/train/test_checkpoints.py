"""A checkpoint is read as it was written, or passed over with a reason."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from quadric.train.checkpoints import (
    Checkpoint,
    checkpoint_steps,
    newest_checkpoint,
    newest_step,
    read_checkpoint,
    write_checkpoint,
)

TENSORS = {"autoencoder.left": torch.arange(6.0).view(2, 3)}


def checkpoint(step: int) -> Checkpoint:
    cursor = {"setup": {"kind": "cached", "rows": 4000, "seed": 0}, "epoch": 1, "batch": 17}
    return Checkpoint(step, [cursor], {"first": TENSORS})


def written(folder: Path, step: int = 6) -> Path:
    return write_checkpoint(folder, checkpoint(step), keep=2)


def sign(folder: Path, state: dict[str, Any]) -> None:
    """Write a state with the right hash."""
    own = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps({**state, "state_sha256": own}))


def test_a_kept_checkpoint_is_read_by_its_step(tmp_path: Path) -> None:
    assert (checkpoint_steps(tmp_path), newest_step(tmp_path)) == ([], None)
    for step in (2, 10, 6):
        write_checkpoint(tmp_path, checkpoint(step), keep=3)
    assert (checkpoint_steps(tmp_path), newest_step(tmp_path)) == ([2, 6, 10], 10)
    found = read_checkpoint(tmp_path, 6)
    assert found[:2] == checkpoint(6)[:2]
    assert found.learners["first"]["autoencoder.left"].equal(TENSORS["autoencoder.left"])


def test_no_flipped_bit_of_the_state_gives_another_step_or_cursor(tmp_path: Path) -> None:
    path = written(tmp_path) / "state.json"
    blob = path.read_bytes()
    for bit in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        found, damaged = newest_checkpoint(tmp_path)
        if found is not None:  # white space, or the case of a letter in an escape
            assert (found.step, found.cursors) == checkpoint(6)[:2], f"bit {bit}"
        else:
            assert [each.folder.name for each in damaged] == ["step-00000006"]
            assert "\n" not in damaged[0].reason


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b"",
        b"\xff\xfe",
        b'{"step": 6}',
        b"[" * 100_000,
        b'{"step": 6, "cursors": [], "sha256": {}}',
        {"step": 6, "cursors": [], "sha256": {"../../outside": "0"}},
        {"step": 6, "cursors": {}, "sha256": {}},
        {"step": 7, "cursors": [], "sha256": {}},
    ],
    ids=range(10),
)
def test_a_state_that_is_not_one_is_passed_over(tmp_path: Path, content: bytes | dict[str, Any]) -> None:
    written(tmp_path, 4)
    folder = written(tmp_path, 6)
    if isinstance(content, bytes):
        (folder / "state.json").write_bytes(content)
    else:
        sign(folder, content)
    found, damaged = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 4
    assert [each.folder.name for each in damaged] == ["step-00000006"]


def test_weights_that_are_no_safetensors_are_passed_over_even_with_the_right_hash(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "first.safetensors").write_bytes(b"not one")
    sign(folder, {"step": 6, "cursors": [], "sha256": {"first": hashlib.sha256(b"not one").hexdigest()}})
    found, (damaged,) = newest_checkpoint(tmp_path)
    assert found is None
    assert "sha256" not in damaged.reason


def test_only_own_checkpoints_are_deleted(tmp_path: Path) -> None:
    for name in ("step-00000002-mine", "step-1", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
    for step in (2, 4, 6):
        written(tmp_path, step)
    assert {path.name for path in tmp_path.iterdir()} == {
        "step-00000002-mine", "step-1", "notes", "step-00000004", "step-00000006"
    }  # fmt: skip


def test_what_killed_processes_left_is_removed_by_the_next_save(tmp_path: Path) -> None:
    for name in (".step-00000002.1", ".step-00000004.4194304"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "first.safetensors").touch()
    (tmp_path / ".step-00000004.mine").mkdir()
    written(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".step-00000004.mine", "step-00000006"}
