"""A small training job as its own process, to be killed, interrupted, resumed and distributed over ranks.

python -m tests.train.job FOLDER [--kill-at STEP] [--kill-while-saving STEP] [--interrupt-at STEP]
    [--terminate-at STEP] [--slow SECONDS]
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch

from benchmarks.planted import PlantedConfig, PlantedStream, plant
from quadric.__main__ import leave
from quadric.train import AutoencoderConfig, InterruptedTraining, Learner, TrainingConfig, checkpoints, resume, train
from quadric.train.distributed import join_job, leave_job

STEPS, TOKENS = 40, 64
PLANTED = PlantedConfig(d_model=12, n_directions=2, n_circles=2, n_spheres=0)
TRAINING = TrainingConfig(steps=STEPS, alpha_warmup_steps=5, checkpoint_every=4)
CONFIGS = {
    # The first one changes from dense to sparse storage of C and loses entries there; the others cover the rest.
    "sparse": AutoencoderConfig(hook_point="planted", n_latents=40, n_hidden=80, mixing_density=0.003),
    "dense": AutoencoderConfig(hook_point="planted", n_latents=16, n_hidden=32, mixing_density=0.1, seed=1),
    "quadratic": AutoencoderConfig(hook_point="planted", n_latents=16, n_hidden=32, prior="quadratic"),
    "atomic": AutoencoderConfig(hook_point="planted", n_latents=24, prior="atomic", same_factors=True, alpha=0.1),
    "topk": AutoencoderConfig(hook_point="planted", kind="topk", n_latents=24, n_active=4),
    "batch_topk": AutoencoderConfig(hook_point="planted", kind="batch_topk", n_latents=24, n_active=4),
}


def learners(*names: str) -> list[Learner]:
    return [Learner(CONFIGS[name].build(PLANTED.d_model), CONFIGS[name], TRAINING) for name in names]


class Shard:
    """Every world_size-th token of each planted batch: together the ranks see what one process would see."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.stream = PlantedStream(plant(PLANTED, 0), PLANTED, TOKENS, seed=0)
        self.part = slice(rank, None, world_size)

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
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--kill-while-saving", type=int)
    parser.add_argument("--interrupt-at", type=int)
    parser.add_argument("--terminate-at", type=int)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--autoencoders", nargs="+", default=["sparse", "topk"])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rank = join_job()
    own = learners(*options.autoencoders)
    stream = Shard(*rank)
    for damaged in resume(options.folder, own, stream):
        print(f"passed over {damaged.folder.name}: {damaged.reason}", file=sys.stderr)

    def on_step(step, reports):
        if rank.is_first:
            print(step, next(iter(reports.values())).error, flush=True)
        if step == options.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == options.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        if step == options.terminate_at:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(options.slow)

    if options.kill_while_saving is not None:
        write = checkpoints.write_atomically

        def dying(path, content):
            write(path, content[: len(content) // 2])
            if own[0].next_step >= options.kill_while_saving:
                os.kill(os.getpid(), signal.SIGKILL)
            write(path, content)

        checkpoints.write_atomically = dying
    try:
        train(own, stream, TRAINING, options.folder, on_step)
    except InterruptedTraining as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(128 + stopped.signal)
    finally:
        leave_job()


if __name__ == "__main__":
    main()
    # Under torchrun `leave` ends the process with os._exit, as `python -m quadric` does. Ending it normally would run
    # the destructors of gloo's threads, and one that was still joinable now and then aborted a finished worker with
    # "terminate called without an active exception" (SIGABRT), which the tests would see as a failed job.
    leave(0)
