"""The training loop: any number of autoencoders on one stream; each batch is read once for all of them."""

import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from quadric.model import BilinearAutoencoder
from quadric.model.mixing import Sparse
from quadric.train.checkpoints import Checkpoint, Damaged, newest_checkpoint, write_checkpoint
from quadric.train.config import TrainingConfig
from quadric.train.distributed import barrier, current_rank, gather_objects
from quadric.train.learner import DivergedError, Learner, StepReport

STEPS_BETWEEN_AGREEMENTS = 16
EXPLODED = 10.0
"""Error of the last batch above which a training is remarked on."""
LONGEST_STEP = 0.6
"""Part of an atom's initial length that a step may move it, if C starts sparse. In 14 or 24 steps on activations of
smollm2 the error never rose at 0.5 and less, rose above 1 and fell again at 0.6 to 0.7, and ended above 1 in four of
five runs at 0.96 and more, for 16, 32 and 64 coordinates with 256 to 1,025 atoms each."""


@runtime_checkable
class Batch(Protocol):
    """A batch: activations by hook point, and the documents that they come from."""

    @property
    def activations(self) -> dict[str, Tensor]: ...

    @property
    def documents(self) -> Tensor: ...


@runtime_checkable
class Stream(Protocol):
    """An iterator of batches whose cursor can be saved and restored."""

    def __iter__(self) -> Iterator[Any]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class DivisibleStream(Stream, Protocol):
    """A stream that several processes share, and that can continue with another number of them."""

    def load_cursors(self, cursors: Sequence[dict[str, Any]]) -> None: ...


class InterruptedTraining(KeyboardInterrupt):
    """Training was interrupted and has saved its state."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = number


def train(
    learners: list[Learner],
    stream: Stream,
    config: TrainingConfig,
    checkpoints: Path | None,
    on_step: Callable[[int, dict[str, StepReport]], None] = lambda step, reports: None,
) -> None:
    """Train from the current step to the last one.

    Args:
        learners: the autoencoders to train, all at the same step.
        stream: batches with a cursor that can be saved.
        config: number of steps, and how often to save.
        checkpoints: folder for checkpoints; None saves nothing.
        on_step: called after each step with the number of steps taken and each learner's report.

    Returns:
        Nothing; the learners' autoencoders are trained in place.

    Example:
        >>> from quadric.data import ActivationCache, BatchSize, CachedStream
        >>> from quadric.train import AutoencoderConfig, Learner, TrainingConfig, train
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=1000, out="cache")
        >>> stream = CachedStream(ActivationCache("cache"), batch=BatchSize(tokens=256), repeat=True)
        >>> config = AutoencoderConfig(hook_point="resid_pre.2", prior="atomic", n_latents=16)
        >>> training = TrainingConfig(steps=6, alpha_warmup_steps=3)
        >>> learner = Learner(config.build(stream.d_model), config, training)
        >>> train([learner], stream, training, Path("checkpoints"))
        >>> learner.next_step
        6
    """
    step = learners[0].next_step
    if step == 0:
        for words in filter(None, (remark_before(each, config) for each in learners)):
            warnings.warn(words, stacklevel=2)
        save(checkpoints, learners, stream, config)  # from here on, an interrupted run can be resumed
    batches = iter(stream)
    with _stop_requests() as stop_requested:
        while step < config.steps:
            batch: Batch | None = next(batches, None)
            if batch is None:
                raise ValueError(f"the text ended at step {step} of {config.steps}; give more text or fewer steps")
            reports = _step_all(learners, batch, config)
            step += 1
            on_step(step, reports)
            stopping = _agree_to_stop(stop_requested() is not None, step)
            if step % config.checkpoint_every == 0 or step == config.steps or stopping:
                save(checkpoints, learners, stream, config)
            if stopping and step < config.steps:
                number = stop_requested() or signal.SIGINT
                raise InterruptedTraining(f"stopped after step {step} of {config.steps}", number)


def _step_all(learners: list[Learner], batch: Batch, config: TrainingConfig) -> dict[str, StepReport]:
    """One step of every learner on the same batch; a loss that is not finite is reported with its documents."""
    try:
        return {each.config.name: each.step(batch.activations[each.config.hook_point]) for each in learners}
    except DivergedError as problem:
        raise DivergedError(
            f"{problem}, on documents {int(batch.documents.min())} to {int(batch.documents.max())}; the last "
            f"checkpoint is untouched: lower learning_rate={config.learning_rate}, or look at that text"
        ) from None


def remark_before(learner: Learner, config: TrainingConfig) -> str | None:
    """What to say about a learning rate that is too large for the number of atoms; None if it is not.

    Rows of L and R start at norm √(w/h), and every step moves them by about `learning_rate`, whatever h is.
    """
    autoencoder = learner.autoencoder
    if not isinstance(autoencoder, BilinearAutoencoder) or not isinstance(autoencoder.mixing, Sparse):
        return None
    ratio = autoencoder.n_hidden / autoencoder.left.shape[1]
    if config.learning_rate * sqrt(ratio) <= LONGEST_STEP:
        return None
    return (
        f"learning_rate={config.learning_rate} moves the atoms of {learner.config.name} by "
        f"{config.learning_rate * sqrt(ratio):.2g} of their initial length in a step ({ratio:.0f} atoms per "
        f"coordinate); errors rose above 1 in runs with more than {LONGEST_STEP}; give at most "
        f"{LONGEST_STEP / sqrt(ratio):.2g}"
    )


def remark(name: str, report: StepReport, config: TrainingConfig) -> str | None:
    """What to say about a training that ends far worse than reconstructing nothing, whose error is 1; None if well."""
    if report.error <= EXPLODED:
        return None
    return (
        f"the error of {name} is {report.error:.2g} after training, where reconstructing nothing has 1; "
        f"lower learning_rate={config.learning_rate} and train again"
    )


def save(checkpoints: Path | None, learners: list[Learner], stream: Stream, config: TrainingConfig) -> None:
    """Write a checkpoint, once for all processes, if there is a folder for it."""
    if checkpoints is None:
        return
    cursors = gather_objects(stream.state_dict())
    if current_rank().is_first:
        states = {learner.config.name: learner.state() for learner in learners}
        write_checkpoint(checkpoints, Checkpoint(learners[0].next_step, cursors, states), config.keep_checkpoints)
    barrier()  # no process continues before the state is on disk


def resume(checkpoints: Path, learners: list[Learner], stream: Stream) -> list[Damaged]:
    """Restore learners and stream from the newest complete checkpoint.

    With as many processes as the checkpoint was made by, training goes on to the bit. With another number it goes on
    with the same batches, divided anew; sums over processes are then rounded differently.

    Args:
        checkpoints: Folder that `train` has saved to; if it has no checkpoint, nothing changes.
        learners: Fresh learners of the same configurations.
        stream: A fresh stream with the same arguments.

    Returns:
        Damaged checkpoints that were skipped.

    Example:
        >>> from quadric.data import ActivationCache, BatchSize, CachedStream
        >>> from quadric.train import AutoencoderConfig, Learner, TrainingConfig, resume, train
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=1000, out="cache")
        >>> stream = CachedStream(ActivationCache("cache"), batch=BatchSize(tokens=256), repeat=True)
        >>> config = AutoencoderConfig(hook_point="resid_pre.2", prior="atomic", n_latents=16)
        >>> training = TrainingConfig(steps=6, alpha_warmup_steps=3)
        >>> train([Learner(config.build(32), config, training)], stream, training, Path("checkpoints"))
        >>> again = Learner(config.build(32), config, training)
        >>> resume(Path("checkpoints"), [again], stream)
        []
        >>> again.next_step
        6
    """
    checkpoint, damaged = newest_checkpoint(checkpoints)
    if checkpoint is None:
        return damaged
    _restore_stream(stream, checkpoint.cursors)
    for learner in learners:
        learner.restore(checkpoint.learners[learner.config.name], checkpoint.step)
    return damaged


def _restore_stream(stream: Stream, cursors: list[Any]) -> None:
    here = current_rank()
    if len(cursors) == here.world_size:
        stream.load_state_dict(cursors[here.number])
    elif isinstance(stream, DivisibleStream):
        stream.load_cursors(cursors)
    else:
        raise ValueError(
            f"the checkpoint was made by {len(cursors)} processes and this job has {here.world_size}, between which "
            f"its rows cannot be divided again; resume with torchrun --nproc-per-node {len(cursors)}"
        )


def _agree_to_stop(requested: bool, step: int) -> bool:
    """Whether to stop: if any process was interrupted, all stop. They exchange this only every few steps."""
    if current_rank().world_size == 1:
        return requested
    return step % STEPS_BETWEEN_AGREEMENTS == 0 and any(gather_objects(requested))


@contextmanager
def _stop_requests() -> Iterator[Callable[[], int | None]]:
    """The signal that asked to stop, if any: SIGINT (Ctrl-C) or SIGTERM.

    The step is finished first, so that no half-updated state is saved; a second signal stops immediately.
    """
    requested: int | None = None

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested is not None:
            raise KeyboardInterrupt
        requested = number

    try:
        before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, which is the only one that may handle signals
        yield lambda: None
        return
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
