"""A small training job as its own process, to be killed, interrupted, resumed and distributed over ranks.

python -m tests.train.job FOLDER [--kill-at STEP] [--kill-while-saving STEP] [--interrupt-at STEP]
    [--terminate-at STEP] [--stop-at STEP] [--slow SECONDS] [--dictionaries NAME …]
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch

from benchmarks.planted import PlantedConfig, PlantedStream, plant
from quadric.model import Atomic, BatchTopK, Composite, Density, Error, Overlap, Quadratic, Term, TopK
from quadric.train import Cell, InterruptedTraining, Learner, Training, checkpoints, resume, train
from quadric.train.distributed import join_job, leave_job


class LargeWeights(Term):
    """A user's own, on weights."""

    name = "large_weights"

    def __call__(self, step):
        return step.dictionary.mixing.matrix().square().sum()


class AlikeForms(Term):
    """A user's own, on weights, by the kernel."""

    name = "alike_forms"
    needs = ("kernel",)

    def __call__(self, step):
        return step.kernel.square().mean()


class Activity(Term):
    """A user's own, on tokens."""

    name = "activity"

    def __call__(self, step):
        return step.mean(step.z.abs().sum(1))


STEPS, TOKENS = 40, 64
PLANTED = PlantedConfig(d_model=12, n_directions=2, n_circles=2, n_spheres=0)
# A low rate: rounding differs with the number of processes, and large steps amplify it.
TRAINING = Training(steps=STEPS, checkpoint_every=4, learning_rate=0.03, learning_rate_decay=0.0)
PAPER = (Error(), Density(0.3, warmup=5))
CELLS = {
    # The first one changes from dense to sparse storage of C and loses entries there; the others cover the rest.
    "sparse": (Composite(n_latents=40, atoms_per_latent=0.24, lens="paper"), PAPER),
    "dense": (Composite(n_latents=16, atoms_per_latent=3.2, lens="paper"), PAPER),
    "quadratic": (Quadratic(n_latents=16, lens="paper"), PAPER),
    "atomic": (Atomic(n_latents=24, same_factors=True, lens="paper"), (Error(), Density(0.1, warmup=5))),
    "own": (
        Composite(n_latents=40, atoms_per_latent=0.24, lens="paper"),
        (Error(top=8), Overlap(0.01), LargeWeights(0.01), AlikeForms(0.1), Activity(0.02)),
    ),
    "topk": (TopK(n_latents=24, n_active=4), ()),
    "batch_topk": (BatchTopK(n_latents=24, n_active=4), ()),
}


def learners(*names: str, training: Training = TRAINING) -> list[Learner]:
    cells = [Cell(hook_point="planted", settings=CELLS[name][0], loss=CELLS[name][1], name=name) for name in names]
    return [
        Learner(cell.settings.build(PLANTED.d_model), cell.loss, training, name=cell.name, hook_point=cell.hook_point)
        for cell in cells
    ]


SIGNALS = {signal.SIGKILL: "kill_at", signal.SIGINT: "interrupt_at", signal.SIGTERM: "terminate_at"}


class Shard:
    """A part of each planted batch, of another size on every rank: together they see what one process would see."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.stream = PlantedStream(plant(PLANTED, 0), PLANTED, TOKENS, seed=0)
        first = TOKENS // 3
        self.part = [slice(None), slice(0, first), slice(first, None)][0 if world_size == 1 else 1 + rank]

    def __iter__(self):
        for batch in self.stream:
            tokens = batch.activations["planted"][self.part]
            yield type(batch)({"planted": tokens}, batch.documents[self.part])

    def state_dict(self):
        return self.stream.state_dict()

    def load_state_dict(self, state):
        self.stream.load_state_dict(state)


def fingerprint(each: Learner) -> list[bytes]:
    """Every bit of a learner's state."""
    return [name.encode() + _bits(value) for name, value in sorted(each.state().items())]


def _bits(value: torch.Tensor) -> bytes:
    if value.ndim == 0:
        return repr(value.item()).encode()
    return bytes(value.contiguous().view(torch.uint8).flatten().tolist())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for step in (*SIGNALS.values(), "kill_while_saving", "stop_at"):
        parser.add_argument(f"--{step.replace('_', '-')}", type=int)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--dictionaries", nargs="+", default=["sparse", "topk"])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rank = join_job()
    own = learners(*options.dictionaries)
    stream = Shard(*rank)
    for damaged in resume(options.folder, own, stream):
        print(f"passed over {damaged.folder.name}: {damaged.reason}", file=sys.stderr)

    def watch(learner: Learner) -> bool:
        step = learner.step_index
        if learner is not own[0]:
            return False
        if rank.is_first:
            print(step, learner.report["error"], flush=True)
        for number, at in SIGNALS.items():
            if step == getattr(options, at):
                os.kill(os.getpid(), number)
        time.sleep(options.slow)
        return step == options.stop_at and not rank.is_first  # one process that knows is enough

    if options.kill_while_saving is not None:
        write = checkpoints.write_atomically

        def dying(path, content):
            write(path, content[: len(content) // 2])
            if own[0].step_index >= options.kill_while_saving:
                os.kill(os.getpid(), signal.SIGKILL)
            write(path, content)

        checkpoints.write_atomically = dying
    try:
        train(own, stream, TRAINING, options.folder, [watch])
    except InterruptedTraining as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(128 + stopped.signal)
    finally:
        leave_job()


if __name__ == "__main__":
    main()
    # As `quadric.__main__.leave` ends a process of a job. Ending it normally would run the destructors of gloo's
    # threads, and one that was still joinable now and then aborted a finished worker with "terminate called without an
    # active exception" (SIGABRT), which the tests would see as a failed job.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
