"""Checkpoints: the state that a run needs to continue exactly where it stopped.

A checkpoint is a folder `step-00000256` with one safetensors file per learner and a state.json with the step, the
stream's cursor of every process, the sha256 of every file and its own. It is written under another name and then
renamed, so a folder of that name is complete unless the disk damaged it, which the hashes detect.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialize_tensors
from torch import Tensor

from quadric._io.files import name_disk_errors, read_json, read_regular, sync_to_disk, write_atomically

STATE_NAME = "state.json"
STEP_NAME = re.compile(r"step-\d{8}")
UNFINISHED_NAME = re.compile(r"\.step-\d{8}\.\d+")
OWN_HASH = "state_sha256"
"""Hash of the other values in state.json."""
KEYS = {"step", "cursors", "sha256", OWN_HASH}


class Checkpoint(NamedTuple):
    """The state of a run after `step` steps."""

    step: int
    cursors: list[Any]
    """The stream's cursor, by rank."""
    learners: dict[str, dict[str, Tensor]]


class Damaged(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    folder: Path
    reason: str


def write_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Save a checkpoint under `folder`, then delete all but the newest `keep`."""
    target = folder / f"step-{checkpoint.step:08d}"
    unfinished = folder / f".{target.name}.{os.getpid()}"
    remove_unfinished(folder)
    with name_disk_errors(target):
        unfinished.mkdir(parents=True)
        try:
            _write_files(unfinished, checkpoint)
            if target.exists():
                shutil.rmtree(target)
            unfinished.replace(target)
            sync_to_disk(folder)  # the rename must be on the disk before older checkpoints are deleted
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        remove_old(folder, keep)
    return target


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    files = {}
    for name, tensors in checkpoint.learners.items():
        blob = serialize_tensors({key: value.detach().cpu().contiguous() for key, value in tensors.items()})
        files[name] = hashlib.sha256(blob).hexdigest()
        write_atomically(folder / f"{name}.safetensors", blob)
    state = {"step": checkpoint.step, "cursors": checkpoint.cursors, "sha256": files}
    write_atomically(folder / STATE_NAME, json.dumps({**state, OWN_HASH: _hash(state)}).encode())


def remove_old(folder: Path, keep: int) -> None:
    """Delete all checkpoints but the newest `keep`."""
    for old in _newest_first(folder)[keep:]:
        shutil.rmtree(old)


def remove_unfinished(folder: Path) -> None:
    """Delete the unfinished checkpoints of killed processes; the caller is the only one that writes here."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if UNFINISHED_NAME.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[Damaged]]:
    """The newest complete checkpoint, and any damaged ones that are newer."""
    damaged: list[Damaged] = []
    for path in _newest_first(folder):
        try:
            return _read_checkpoint(path), damaged
        except (OSError, ValueError, SafetensorError) as problem:
            damaged.append(Damaged(path, str(problem)))
    return None, damaged


def newest_step(folder: Path) -> int | None:
    """The step of the newest checkpoint by its name, damaged or not; None if there is none."""
    return max(checkpoint_steps(folder), default=None)


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps of all checkpoints by their names, damaged or not, oldest first."""
    return [_step_of(path) for path in reversed(_newest_first(folder))]


def read_checkpoint(folder: Path, step: int) -> Checkpoint:
    """The checkpoint of one step."""
    return _read_checkpoint(folder / f"step-{step:08d}")


def _step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _newest_first(folder: Path) -> list[Path]:
    """Only folders with names that this module gives: copies that a user keeps next to them are left alone."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in found if STEP_NAME.fullmatch(path.name)), reverse=True)


def _read_checkpoint(folder: Path) -> Checkpoint:
    state = _read_state(folder)
    return Checkpoint(state["step"], state["cursors"], dict(_read_learners(folder, state["sha256"])))


def _read_state(folder: Path) -> dict[str, Any]:
    """The contents of state.json, which must be those that were written."""
    path = folder / STATE_NAME
    state = read_json(path, "the checkpoint before it is used")
    if not isinstance(state, dict) or state.keys() != KEYS:
        raise ValueError(f"{STATE_NAME} does not hold {', '.join(sorted(KEYS))}")
    if state.pop(OWN_HASH) != _hash(state):
        raise ValueError(f"{STATE_NAME} does not have the recorded sha256")
    if state["step"] != _step_of(folder) or not isinstance(state["cursors"], list):
        raise ValueError(f"{STATE_NAME} is not about step {_step_of(folder)}")
    if not isinstance(state["sha256"], dict) or any(Path(name).name != name for name in state["sha256"]):
        raise ValueError(f"{STATE_NAME} names files outside the checkpoint")
    return state


def _hash(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _read_learners(folder: Path, hashes: dict[str, str]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    for name, expected in hashes.items():
        blob = read_regular(folder / f"{name}.safetensors", largest=sys.maxsize)
        if hashlib.sha256(blob).hexdigest() != expected:
            raise ValueError(f"{name}.safetensors does not have the recorded sha256")
        yield name, parse_tensors(blob)
