"""Train a run: open the stream, build the learners, run the training loop, save the result."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch

from quadric._io.files import read_json, remove_leftovers, write_json
from quadric._io.locks import LOCK, BusyError, entries, only_writer
from quadric.data import (
    ActivationCache,
    ActivationConfig,
    ActivationStream,
    BatchSize,
    CachedStream,
    LiveStream,
    describe,
)
from quadric.data.models import chosen_device
from quadric.data.provenance import ProvenanceError, StreamProvenance
from quadric.data.settings import ModelDtype
from quadric.model import Dictionary
from quadric.model.objective import float32_arithmetic
from quadric.model.storage import CONFIG_NAME, WEIGHTS_NAME
from quadric.run.config import RunConfig, check_enough, check_text_suffices, read_run_config, write_run_config
from quadric.run.folder import AUTOENCODERS, RUN_CONFIG_NAME, autoencoder_folders
from quadric.run.telemetry import METRICS, TENSORBOARD, open_sinks
from quadric.train import Callback, Learner, resume, train
from quadric.train.checkpoints import Damaged, newest_step, remove_old, remove_unfinished
from quadric.train.distributed import barrier, current_processes
from quadric.train.loop import estimate_lenses

CHECKPOINTS = "checkpoints"

PROVENANCE = "provenance.json"


@dataclass(frozen=True, kw_only=True)
class Moved:
    """New locations of a run's model, text and cache; None where they have not moved since the run was started."""

    model: str | None = None
    corpus: str | None = None
    cache: str | None = None

    def activations(self, before: ActivationConfig) -> ActivationConfig:
        """The same activations, with model and text at their new locations."""
        corpus = replace(before.corpus, source=self.corpus or before.corpus.source)
        return replace(before, model=self.model or before.model, corpus=corpus)

    def apply(self, config: RunConfig) -> RunConfig:
        """The config with the new locations; training checks that the activations are still the same."""
        if config.activations is None:
            return config
        return replace(config, activations=self.activations(config.activations), cache=self.cache or config.cache)


def create_run(config: RunConfig, folder: Path, *, device: str = "auto") -> None:
    """Create the folder of a new run; if the run cannot be trained as configured, raise before creating it."""
    _check_new(folder)
    _check_processes(config)
    if config.cache is not None:
        _open_cache(config, device)
    _check_enough_to_read(config)
    with only_writer(folder, "quadric train"):
        _check_new(folder)  # again, now that no other process can create it
        remove_leftovers(folder, re.escape(RUN_CONFIG_NAME))
        write_run_config(config, folder)


def _check_new(folder: Path) -> None:
    left = re.compile(rf"\.{re.escape(RUN_CONFIG_NAME)}\.\d+")  # of a process that was killed while it created the run
    there = folder.exists() and not folder.is_dir()
    if there or any(not left.fullmatch(path.name) for path in entries(folder)):
        raise FileExistsError(
            f"'{folder}' exists and is not empty; choose another folder, or continue the run in it with: "
            f"quadric train --resume {folder}"
        )


@contextmanager
def new_run(config: RunConfig, folder: Path, *, device: str = "auto") -> Iterator[None]:
    """Create a run to be trained inside the block; if that fails before its first checkpoint, remove it again.

    A folder with nothing but a config would stop the next attempt. After Ctrl-C the run stays and can be resumed.
    """
    create_run(config, folder, device=device)
    try:
        yield
    except Exception:
        with suppress(BusyError), only_writer(folder, "quadric train"):
            if newest_step(folder / CHECKPOINTS) is None:
                _remove_unstarted(folder)
        raise


def _remove_unstarted(folder: Path) -> None:
    for name in (RUN_CONFIG_NAME, PROVENANCE, METRICS):
        (folder / name).unlink(missing_ok=True)
    for name in (CHECKPOINTS, TENSORBOARD):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / LOCK).unlink(missing_ok=True)  # so that the folder is empty; it is locked until the block ends
    with suppress(OSError):
        folder.rmdir()


def _check_enough_to_read(config: RunConfig) -> None:
    if config.cache is None:
        check_text_suffices(config)
        return
    shards = ActivationCache(config.cache).manifest.shards
    check_enough(sum(shard.sequences for shard in shards), config, f"the cache '{config.cache}'")


def is_finished(folder: Path) -> bool:
    """Whether every autoencoder of the run is saved and was trained for all steps."""
    config = read_run_config(folder)
    if not set(autoencoder_folders(folder)) >= {each.name for each in config.cells}:
        return False
    return newest_step(folder / CHECKPOINTS) in (None, config.training.steps)


def extend_run(folder: Path, steps: int) -> None:
    """Increase the number of steps of a run; `train_run` then continues it from its last checkpoint.

    The schedules are stretched to the new number of steps: the support of C is frozen for the last fifth of them, and
    the density of C follows the new schedule once that falls below its current density. The old number is recorded in
    run.json.
    """
    config = read_run_config(folder)
    before = config.training.steps
    if steps == before:
        return
    if steps < before:
        raise ValueError(f"steps={steps} is fewer than the {before} of the run in '{folder}'; give more than {before}")
    if newest_step(folder / CHECKPOINTS) is None:
        raise FileNotFoundError(
            f"'{folder}' has no checkpoint to continue from; train a new run that starts from its weights: "
            "quadric.fit(x, start=quadric.load(run))"
        )
    longer = replace(
        config,
        training=replace(config.training, steps=steps),
        continued_from=(*config.continued_from, before),
    )
    _check_enough_to_read(longer)
    with only_writer(folder, "quadric train"):
        write_run_config(longer, folder)


@float32_arithmetic()
def train_run(
    folder: Path,
    *,
    device: str = "auto",
    moved: Moved | None = None,
    tensorboard: bool = False,
    wandb_project: str | None = None,
    stream: ActivationStream | None = None,
    start: Dictionary | None = None,
    on_open: Callable[[int, list[Damaged]], None] = lambda step, damaged: None,
    callbacks: Sequence[Callback] = (),
) -> None:
    """Train a run from its last checkpoint to its end and save the dictionaries; every process of a job calls this.

    `on_open` is called with the number of finished steps and the damaged checkpoints that were skipped, `callbacks`
    with each learner after every step, on every process.
    """
    is_first, checkpoints = current_processes().is_first, folder / CHECKPOINTS
    with only_writer(folder, "quadric train") if is_first else nullcontext():  # the others write nothing
        config = _in_recorded_dtype((moved or Moved()).apply(read_run_config(folder)), folder / PROVENANCE)
        _check_processes(config)
        stream = open_stream(config, device=device) if stream is None else stream
        check_same_source(stream, folder)
        learners = make_learners(config, stream, chosen_device(device), start)
        damaged = resume(checkpoints, learners, stream)
        if is_first:
            _remove_leftovers(config, folder, all_whole=not damaged)
        estimate_lenses(learners, stream)
        if is_first:
            step = learners[0].step_index
            on_open(step, damaged)
            with open_sinks(folder, step, tensorboard=tensorboard, wandb_project=wandb_project) as sinks:
                train(learners, stream, config.training, checkpoints, [*sinks, *callbacks])
            for learner in learners:
                learner.dictionary.save_pretrained(folder / AUTOENCODERS / learner.name)
        else:
            train(learners, stream, config.training, checkpoints, callbacks)
        barrier()  # the others wait until the first process has saved


def _remove_leftovers(config: RunConfig, folder: Path, *, all_whole: bool) -> None:
    """Delete what killed processes left in a run; older checkpoints only if the newest ones are whole."""
    remove_leftovers(folder, "|".join(map(re.escape, (RUN_CONFIG_NAME, PROVENANCE, METRICS, "evaluation.json"))))
    for each in config.cells:
        remove_leftovers(folder / AUTOENCODERS / each.name, rf"{re.escape(CONFIG_NAME)}|{WEIGHTS_NAME.pattern}")
    remove_unfinished(folder / CHECKPOINTS)
    if all_whole:
        remove_old(folder / CHECKPOINTS, config.training.keep_checkpoints)


def open_stream(config: RunConfig, *, device: str = "auto") -> ActivationStream:
    """This process's share of the activations of a run."""
    here = current_processes()
    batch = BatchSize(sequences=config.sequences_per_step // here.world_size)
    rank, world_size, repeat = here.number, here.world_size, config.epochs > 1
    if config.cache is None:
        return LiveStream.open(
            config.reading, device=device, batch=batch, rank=rank, world_size=world_size, repeat=repeat
        )
    return CachedStream(
        _open_cache(config, device),
        hook_points=describe(config.reading, device=device).hook_points,
        batch=batch,
        seed=config.reading.corpus.seed,
        rank=rank,
        world_size=world_size,
        repeat=repeat,
    )


def make_learners(
    config: RunConfig, stream: ActivationStream, device: torch.device, start: Dictionary | None = None
) -> list[Learner]:
    """A learner for every cell of a run: newly initialized or a copy of `start`, with provenance."""
    learners = []
    for cell in config.cells:
        made = cell.settings.build(stream.d_model, seed=cell.seed) if start is None else deepcopy(start)
        made.provenance = stream.provenance.for_hook_point(cell.hook_point)
        learners.append(
            Learner(made.to(device), cell.loss, config.training, name=cell.name, hook_point=cell.hook_point)
        )
    return learners


def _open_cache(config: RunConfig, device: str) -> ActivationCache:
    assert config.cache is not None
    stored = ActivationCache(config.cache).provenance
    return ActivationCache(config.cache, expected=describe(_in_dtype(config.reading, stored), device=device))


def _in_recorded_dtype(config: RunConfig, path: Path) -> RunConfig:
    """The config with the data type of the model that a run began with, so that it continues on another device."""
    if config.activations is None or not path.exists():
        return config
    return replace(config, activations=_in_dtype(config.activations, _read_provenance(path)))


def _in_dtype(reading: ActivationConfig, recorded: StreamProvenance) -> ActivationConfig:
    """`auto` depends on the device; what was recorded does not."""
    known = recorded.model_dtype if reading.model_dtype == "auto" else None
    return reading if known is None else replace(reading, model_dtype=cast(ModelDtype, known))


def check_same_source(stream: ActivationStream, folder: Path) -> None:
    """Raise unless the stream has the model and text that the run was started with, wherever they are now."""
    path = folder / PROVENANCE
    if path.exists():
        begun = _read_provenance(path)
        if found := begun.differences(stream.provenance):
            raise ProvenanceError(
                f"the run in '{folder}' began with other activations ({'; '.join(found)}); "
                "give the model and text it was started with, or start a new run"
            )
    elif current_processes().is_first:
        write_json(path, stream.provenance.to_dict())


def _read_provenance(path: Path) -> StreamProvenance:
    remedy = "restore the file, or delete it if the model and the text are still the same"
    record = read_json(path, remedy)
    try:
        return StreamProvenance.from_dict(record)
    except (TypeError, ValueError) as problem:
        raise ProvenanceError(f"{path} is damaged ({problem}); {remedy}") from None


def _check_processes(config: RunConfig) -> None:
    """Raise unless the processes of this job can share every batch: in whole sequences and, live, in whole passes."""
    n = current_processes().world_size
    if n == 1:
        return
    if config.activations is None:  # each process would have all the rows to itself
        raise ValueError(
            f"training on rows in memory needs a single process, but this job has {n}; run it without torchrun"
        )
    share, left = divmod(config.sequences_per_step, n)
    if left:
        raise ValueError(
            f"{n} processes cannot share {config.sequences_per_step} sequences per step; give a multiple of {n} with "
            "--sequences-per-step, or another number of processes"
        )
    per_forward = config.reading.sequences_per_forward
    if config.cache is None and share % per_forward:
        raise ValueError(
            f"each of {n} processes reads {share} of the {config.sequences_per_step} sequences of a step, which are no "
            f"whole forward passes of {per_forward}; give --sequences-per-forward {share}, or harvest first"
        )
