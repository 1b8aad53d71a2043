"""Question: which optimizer for a sparse C trains as well as Muon on the dense C?

python benchmarks/bench_mixing_optimizer.py [--quick]
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from math import sqrt
from typing import NamedTuple
from unittest.mock import patch

import torch
from measure import write_table
from smollm2_activations import LAYER, batches, held_out, layer_activations

from quadric.model import mixing
from quadric.model.mixing import Sparse
from quadric.train import AutoencoderConfig, Learner, TrainingConfig, optimizers
from quadric.train.learner import mixing_density_at
from quadric.train.optimizers import ROUNDS, SparseMuon

MakeOptimizer = Callable[[torch.nn.Parameter, Sparse, float, float], torch.optim.Optimizer]


class Sizes(NamedTuple):
    n_latents: int
    density: float
    batch_tokens: int
    steps: int
    cached_tokens: int


FULL = Sizes(576, 0.004, 4096, 200, 300_000)
QUICK = Sizes(288, 0.008, 2048, 200, 300_000)


class Outcome(NamedTuple):
    error: float
    total: float
    seconds: float


def adam(rate: float) -> MakeOptimizer:
    """AdamW at a fixed learning rate."""
    return lambda values, *_: torch.optim.AdamW([values], lr=rate, weight_decay=0.0)


def adam_by_row(values: torch.nn.Parameter, sparse: Sparse, learning_rate: float, _: float) -> torch.optim.Optimizer:
    """AdamW at lr/√(entries per row): the size of Muon's update, without its direction."""
    rate = learning_rate / sqrt(max(1.0, sparse.n_entries / sparse.shape[0]))
    return torch.optim.AdamW([values], lr=rate, weight_decay=0.0)


def rounds(n_rounds: int) -> MakeOptimizer:
    """SparseMuon with a fixed number of Newton–Schulz rounds."""

    def make(values: torch.nn.Parameter, sparse: Sparse, rate: float, momentum: float) -> torch.optim.Optimizer:
        optimizer = SparseMuon(values, sparse.pattern, rate, momentum)
        optimizer.n_rounds = n_rounds
        return optimizer

    return make


RULES: dict[str, MakeOptimizer | None] = {
    "Muon on dense C with a mask": None,
    "SparseMuon (ours)": optimizers.sparse_optimizer,
    "SparseMuon, two rounds": rounds(2),
    "SparseMuon, five rounds as in Muon": rounds(ROUNDS),
    "AdamW at 0.03/√(entries per row)": adam_by_row,
    "AdamW at 0.01": adam(0.01),
    "AdamW at 0.003": adam(0.003),
}


@contextmanager
def rule(make: MakeOptimizer | None) -> Iterator[None]:
    """Train with this optimizer; None keeps C dense, with a mask, for the whole run."""
    with ExitStack() as patches:
        if make is None:
            patches.enter_context(patch.object(mixing, "SPARSE_BELOW", 0.0))
        else:
            patches.enter_context(patch.object(optimizers, "sparse_optimizer", make))
        yield


class Run:
    """A small run with the paper's schedules, trained to the step where C becomes sparse and the optimizers differ."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.tokens = layer_activations(sizes.cached_tokens)
        self.batches = batches(self.tokens, sizes.batch_tokens, sizes.steps, seed)
        config = AutoencoderConfig(
            hook_point="x",
            n_latents=sizes.n_latents,
            n_hidden=2 * sizes.n_latents,
            mixing_density=sizes.density,
            seed=seed,
        )
        training = TrainingConfig(steps=sizes.steps, alpha_warmup_steps=sizes.steps // 8)
        self.learner = Learner(config.build(self.tokens.shape[1]), config, training)
        while mixing_density_at(self.learner.next_step, sizes.steps, sizes.density) >= mixing.SPARSE_BELOW:
            self._step(self.learner)

    def finished_with(self, make: MakeOptimizer | None) -> Outcome:
        """Finish the run with one optimizer; returns error and loss on held-out tokens."""
        learner = deepcopy(self.learner)
        start = time.process_time()
        with rule(make):
            while learner.next_step < len(self.batches):
                self._step(learner)
        seconds = time.process_time() - start
        with torch.no_grad():
            terms = learner.autoencoder.eval().loss(held_out(self.tokens), learner.config.alpha)
        return Outcome(terms.error.item(), terms.total.item(), seconds)

    def _step(self, learner: Learner) -> None:
        learner.step(self.tokens[self.batches[learner.next_step]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half of the latents and tokens, under its own name")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    rows = []
    for seed in range(options.seeds):
        run = Run(sizes, seed)
        for name, make in RULES.items():
            outcome = run.finished_with(make)
            rows.append([name, str(seed), f"{outcome.error:.4f}", f"{outcome.total:.4f}", f"{outcome.seconds:.0f}"])
            print(*rows[-1], flush=True)
    write_table(
        "mixing_optimizer_quick" if options.quick else "mixing_optimizer",
        "Optimizers for sparse C",
        ["optimizer", "seed", "held-out error", "held-out loss", "CPU seconds after the switch"],
        rows,
        f"Composite k={sizes.n_latents}, h={2 * sizes.n_latents}, density {sizes.density:.1%}, {sizes.steps} steps of "
        f"{sizes.batch_tokens} smollm2 tokens, residual stream into layer {LAYER} (epochs over "
        f"{sizes.cached_tokens:,}), the paper's schedules; loss is error + 0.3 density. All rows of a seed share the "
        f"same training with Muon on dense C until its density reaches {mixing.SPARSE_BELOW:.0%}; after that each "
        "optimizer finishes the run, the first one with C still dense. "
        "`python benchmarks/bench_mixing_optimizer.py`",
    )


if __name__ == "__main__":
    main()
