"""Write the metrics of a run to a file and, on request, to TensorBoard and Weights & Biases."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from quadric._io.files import read_regular, write_atomically
from quadric.train import Callback, Learner

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


@contextmanager
def open_sinks(
    folder: Path, resumed_at: int, *, tensorboard: bool, wandb_project: str | None
) -> Iterator[list[Callback]]:
    """Callbacks that write every report where it was asked for, closed on exit; metrics of steps after `resumed_at`,
    which will be repeated, are dropped."""
    with ExitStack() as stack:
        sinks: list[Callback] = [stack.enter_context(_metrics_file(folder / METRICS, resumed_at))]
        if tensorboard:
            sinks.append(stack.enter_context(_tensorboard(folder / TENSORBOARD, resumed_at)))
        if wandb_project is not None:
            sinks.append(stack.enter_context(_wandb(folder, wandb_project)))
        yield sinks


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one record per complete line; a killed process may have left half a line at the end."""
    path = folder / METRICS
    lines = read_regular(path).split(b"\n") if path.exists() else [b""]
    return [_record(line, path, number) for number, line in enumerate(lines[:-1], 1)]


def _record(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("step"), int) or "autoencoder" not in record:
        raise ValueError(f"line {number} of {path} is not a record of a step; delete the line, or the file")
    return record


@contextmanager
def _metrics_file(path: Path, resumed_at: int) -> Iterator[Callback]:
    kept = [line for line in read_metrics(path.parent) if line["step"] <= resumed_at]
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
    with path.open("a", buffering=1) as file:
        yield _LineWriter(file)


class _LineWriter:
    def __init__(self, file: TextIO) -> None:
        self.file = file

    def __call__(self, learner: Learner) -> None:
        record = {"step": learner.step_index, "autoencoder": learner.name, **learner.report}
        self.file.write(json.dumps(record) + "\n")


@contextmanager
def _tensorboard(folder: Path, resumed_at: int) -> Iterator[Callback]:
    _require("tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    # purge_step: otherwise steps that a killed run logged after its last checkpoint would be drawn twice.
    with SummaryWriter(str(folder), purge_step=resumed_at + 1) as writer:

        def sink(learner: Learner) -> None:
            for name, value in learner.report.items():
                writer.add_scalar(f"{name}/{learner.name}", value, learner.step_index)

        yield sink


@contextmanager
def _wandb(folder: Path, project: str) -> Iterator[Callback]:
    wandb: Any = _require("wandb", "wandb")
    # The folder's name is the run id, so that a resumed run continues on the same page.
    run = wandb.init(project=project, name=folder.name, id=folder.name, resume="allow", dir=os.fspath(folder))

    def sink(learner: Learner) -> None:
        values = {f"{learner.name}/{name}": value for name, value in learner.report.items()}
        run.log(values, step=learner.step_index)

    try:
        yield sink
    finally:
        run.finish()


def _require(module: str, extra: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{module} is not installed; install it with: pip install 'quadric[{extra}]', or leave it out"
        ) from None
