"""The training loop: any number of autoencoders on one stream; each batch is read once for all of them."""

import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import Tensor

from quadric.model.lens import AffineLens, TokenMoments, affine_lens, token_moments
from quadric.model.settings import Composite
from quadric.train.checkpoints import Checkpoint, Damaged, newest_checkpoint, write_checkpoint
from quadric.train.distributed import barrier, current_processes, gather_objects
from quadric.train.learner import DivergedError, Learner
from quadric.train.settings import Training

EXPLODED = 10.0
"""Error of the last batch above which a training is remarked on."""
LONGEST_STEP = 0.6
"""Part of an atom's initial length that a step may move it, if C starts sparse. In 14 or 24 steps on activations of
smollm2 the error never rose at 0.5 and less, rose above 1 and fell again at 0.6 to 0.7, and ended above 1 in four of
five runs at 0.96 and more, for 16, 32 and 64 coordinates with 256 to 1,025 atoms each."""


LENS_TOKENS = 16_384
"""Tokens that a lens is estimated from: whole batches, until there are at least so many."""


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


class InterruptedTraining(KeyboardInterrupt):
    """Training was interrupted and has saved its state."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = number


Callback = Callable[[Learner], object]
"""Called with each learner after every step, on every process; training stops after the step if one returns True."""


def train(
    learners: list[Learner],
    stream: Stream,
    training: Training,
    checkpoints: Path | None = None,
    callbacks: Iterable[Callback] = (),
) -> None:
    """Train from the current step to the last one.

    Args:
        learners: what to train, all at the same step.
        stream: batches with a cursor that can be saved.
        training: number of steps, and how often to save.
        checkpoints: folder for checkpoints; None saves nothing.
        callbacks: called with each learner after every step; `learner.report` has the values of the loss. If one
            returns True, training stops there, and the state is saved.

    Returns:
        Nothing; the learners' dictionaries are trained in place.

    Example:
        >>> from quadric.data import ActivationCache, BatchSize, CachedStream
        >>> from quadric.train import Learner, Training, train
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=1000, out="cache")
        >>> stream = CachedStream(ActivationCache("cache"), batch=BatchSize(tokens=256), repeat=True)
        >>> training = Training(steps=6)
        >>> dictionary = quadric.Atomic(n_latents=16, lens="paper").build(stream.d_model)
        >>> learner = Learner(dictionary, training=training, hook_point="resid_pre.2")
        >>> train([learner], stream, training, Path("checkpoints"))
        >>> learner.step_index
        6
    """
    step, callbacks, ends = learners[0].step_index, tuple(callbacks), False
    if step == 0:
        for words in filter(None, map(remark_before, learners)):
            warnings.warn(words, stacklevel=2)
        save(checkpoints, learners, stream, training)  # from here on, an interrupted run can be resumed
    batches = iter(stream)
    with _stop_requests() as stop_requested:
        while step < training.steps and not ends:
            batch: Batch | None = next(batches, None)
            if batch is None:
                raise ValueError(f"the text ended at step {step} of {training.steps}; give more text or fewer steps")
            _step_all(learners, batch)
            step += 1
            answers = [callback(learner) is True for learner in learners for callback in callbacks]
            ends, number = _agreed(any(answers), stop_requested())
            if step % training.steps_between_checkpoints == 0 or step == training.steps or ends or number is not None:
                save(checkpoints, learners, stream, training)
            if number is not None and step < training.steps:
                raise InterruptedTraining(f"stopped after step {step} of {training.steps}", number)


def _step_all(learners: list[Learner], batch: Batch) -> None:
    """One step of every learner on the same batch; a loss that is not finite is reported with its documents."""
    for learner in learners:
        try:
            learner.step(batch.activations[learner.hook_point])
        except DivergedError as problem:
            raise DivergedError(
                f"{problem}, on documents {int(batch.documents.min())} to {int(batch.documents.max())}; the last "
                f"checkpoint is untouched: lower learning_rate={learner.training.rate:g}, or look at that text"
            ) from None


def remark_before(learner: Learner) -> str | None:
    """What to say about a learning rate that is too large for the number of atoms; None if it is not.

    Rows of L and R start at norm √(w/h), and every step moves them by about the learning rate, whatever h is.
    """
    dictionary, rate = learner.dictionary, learner.training.rate
    settings = dictionary.settings
    if not isinstance(settings, Composite) or not settings.starts_sparse:
        return None
    ratio = settings.atoms / (dictionary.d_model + (dictionary.lens.kind == "affine"))
    if rate * sqrt(ratio) <= LONGEST_STEP:
        return None
    return (
        f"learning_rate={rate:g} moves the atoms of {learner.name} by {rate * sqrt(ratio):.2g} of their initial length "
        f"in a step ({ratio:.0f} atoms per coordinate); errors rose above 1 in runs with more than {LONGEST_STEP}; "
        f"give at most {LONGEST_STEP / sqrt(ratio):.2g}"
    )


def remark(name: str, report: Mapping[str, float], rate: float) -> str | None:
    """What to say about a training that ends far worse than reconstructing nothing, whose error is 1; None if well."""
    if not report.get("error", 0.0) > EXPLODED:
        return None
    return (
        f"the error of {name} is {report['error']:.2g} after training, where reconstructing nothing has 1; "
        f"lower learning_rate={rate:g} and train again"
    )


def save(checkpoints: Path | None, learners: list[Learner], stream: Stream, training: Training) -> None:
    """Write a checkpoint, once for all processes, if there is a folder for it."""
    if checkpoints is None:
        return
    cursors = gather_objects(stream.state_dict())
    if current_processes().is_first:
        states = {learner.name: learner.state() for learner in learners}
        write_checkpoint(checkpoints, Checkpoint(learners[0].step_index, cursors, states), training.keep_checkpoints)
    barrier()  # no process continues before the state is on disk


def resume(checkpoints: Path, learners: list[Learner], stream: Stream) -> list[Damaged]:
    """Restore learners and stream from the newest complete checkpoint.

    Training goes on to the bit, in as many processes as the checkpoint was made by; another number is an error.

    Args:
        checkpoints: Folder that `train` has saved to; if it has no checkpoint, nothing changes.
        learners: Fresh learners of the same configurations.
        stream: A fresh stream with the same arguments.

    Returns:
        Damaged checkpoints that were skipped.

    Example:
        >>> from quadric.data import ActivationCache, BatchSize, CachedStream
        >>> from quadric.train import Learner, Training, resume, train
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=1000, out="cache")
        >>> stream = CachedStream(ActivationCache("cache"), batch=BatchSize(tokens=256), repeat=True)
        >>> training, kind = Training(steps=6), quadric.Atomic(n_latents=16, lens="paper")
        >>> learner, again = (
        ...     Learner(kind.build(stream.d_model), training=training, hook_point="resid_pre.2") for _ in range(2)
        ... )
        >>> train([learner], stream, training, Path("checkpoints"))
        >>> resume(Path("checkpoints"), [again], stream)
        []
        >>> again.step_index
        6
    """
    checkpoint, damaged = newest_checkpoint(checkpoints)
    if checkpoint is None:
        return damaged
    cursors, here = checkpoint.cursors, current_processes()
    if len(cursors) != here.world_size:
        raise ValueError(
            f"the checkpoint was made by {len(cursors)} processes and this job has {here.world_size}; "
            f"resume with torchrun --nproc-per-node {len(cursors)}"
        )
    stream.load_state_dict(cursors[here.number])
    for learner in learners:
        learner.restore(checkpoint.learners[learner.name], checkpoint.step)
    return damaged


def _agreed(ends: bool, number: int | None) -> tuple[bool, int | None]:
    """Whether a callback of any process ended the training, and the signal that interrupted any, if one did.

    Callbacks mostly answer from the report, which is the same on every process, but they need not.
    """
    if not current_processes().total_count(int(ends or number is not None), torch.empty(0)):
        return False, None
    asked = gather_objects((ends, number))
    return any(each for each, _ in asked), next((each for _, each in asked if each is not None), None)


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


def estimate_lenses(learners: list[Learner], stream: Stream) -> None:
    """Read the first batches of the stream, set every unknown lens, and return to where the stream was.

    All learners share one reading. Processes add up what they read, so that the lens is that of the whole batches.
    """
    waiting = [each for each in learners if _needs_lens(each)]
    if not waiting:
        return
    begin = stream.state_dict()
    moments = _first_moments(stream, {each.hook_point for each in waiting})
    stream.load_state_dict(begin)
    for each in waiting:
        device = next(each.dictionary.parameters()).device
        each.dictionary.lens = affine_lens(moments[each.hook_point]).to(device)


def _needs_lens(learner: Learner) -> bool:
    lens = learner.dictionary.lens
    return isinstance(lens, AffineLens) and not lens.is_known


def _first_moments(stream: Stream, hook_points: set[str]) -> dict[str, TokenMoments]:
    found: dict[str, TokenMoments] = {}
    for batch in stream:
        own = _moments(batch, hook_points)
        found = {name: found[name] + each if found else each for name, each in own.items()}
        if all(each.n_tokens >= LENS_TOKENS for each in found.values()):
            break
    if not found:
        raise ValueError("there is no token to estimate the lens from; give some text or rows")
    return found


def _moments(batch: Batch, hook_points: set[str]) -> dict[str, TokenMoments]:
    return {name: _over_processes(token_moments(batch.activations[name])) for name in sorted(hook_points)}


def _over_processes(moments: TokenMoments) -> TokenMoments:
    """The sums of all processes of the job."""
    if current_processes().world_size == 1:
        return moments
    flat = torch.cat([moments.total.new_tensor([moments.n_tokens]), moments.total, moments.outer.flatten()])
    dist.all_reduce(flat)
    d = len(moments.total)
    return TokenMoments(int(flat[0]), flat[1 : 1 + d], flat[1 + d :].view(d, d))
