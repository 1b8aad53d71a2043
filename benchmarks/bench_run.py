"""Targets: a whole composite run at least 3 times as fast as the printed algorithm in float32 at k = 1,152, h = 2,304,
and with at most a fifth of its operations at the paper's size, with the same held-out loss or a lower one.

All runs of a size take their steps in turn on the same batches, so that a slow phase of the machine affects all.

    python benchmarks/bench_run.py [--quick]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from jaxtyping import Float
from measure import LAYER, batches, counted_flops, held_out, layer_activations, paper_settings, write_table
from paper_algorithm import PaperAutoencoder, PaperLearner
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from quadric.model import BilinearAutoencoder, Density, Error, Overlap
from quadric.model.bilinear import is_mask_frozen, mixing_density_at
from quadric.model.fast import sparse
from quadric.model.fast.sparse import scattered_mixing
from quadric.model.lens import affine_lens, token_moments
from quadric.model.objective import hoyer_density, unit_tokens
from quadric.model.terms import Term
from quadric.studies.planning.costs import phases
from quadric.train import Cell, Learner, Training

ATOMS, ALPHA = 16, 0.3
PAPERS: tuple[Term, ...] = (Error(), Density(ALPHA))
BETTER: tuple[Term, ...] = (Error(top=32), Density(0.05), Overlap(0.01))
"""Of the default recipe; the mean of all latents is left free, whatever their number."""
PRINTED = "printed, float32"
SHARED = "C sparse from the start, all atoms shared"
LENS_TOKENS = 50_000


class Sizes(NamedTuple):
    n_latents: int
    batch_tokens: int
    steps: int

    @property
    def n_hidden(self) -> int:
        return 2 * self.n_latents

    @property
    def density(self) -> float:
        return ATOMS / self.n_hidden


FULL = (Sizes(1152, 2048, 150), Sizes(576, 2048, 150), Sizes(288, 2048, 150))
QUICK = (Sizes(96, 512, 20),)
OF_PAPER = Sizes(8192, 8192, 2048)
PAPER_WIDTH = 1024


class Run(NamedTuple):
    """One run: how to take a step, and how to measure held-out tokens."""

    step: Callable[[Tensor, int], object]
    latents: Callable[[Tensor], Tensor]
    error: Callable[[Tensor], Tensor]
    offset: Tensor
    flops: float


class Ours(NamedTuple):
    """One of our runs."""

    cell: Cell
    training: Training


def settings(sizes: Sizes) -> dict[str, Ours]:
    """Our runs by the name of their row."""
    thin, better = {"initial_density": sizes.density}, {"lens": "affine"}
    plain, rounded = Training(steps=sizes.steps), Training(steps=sizes.steps, gradient_dtype="bfloat16")
    return {
        "ours, C dense at first": Ours(cell_of(sizes, PAPERS), plain),
        "ours, C sparse from the start": Ours(cell_of(sizes, PAPERS, **thin), plain),
        "the same, gradients in bfloat16": Ours(cell_of(sizes, PAPERS, **thin), rounded),
        SHARED: Ours(cell_of(sizes, PAPERS, **thin), plain),
        "default recipe, C dense at first": Ours(cell_of(sizes, BETTER, **better), plain),
        "default recipe, C sparse from the start": Ours(cell_of(sizes, BETTER, **better, **thin), plain),
    }


def cell_of(sizes: Sizes, loss: tuple[Term, ...], **changes: Any) -> Cell:
    return Cell(settings=paper_settings("composite", sizes.n_latents, sizes.density, **changes), loss=loss)


def printed(sizes: Sizes, d_model: int) -> Run:
    """The printed algorithm with the paper's schedules; its operations are those of a step, counted."""
    autoencoder = PaperAutoencoder(d_model, sizes.n_latents, sizes.n_hidden, "composite")
    learner, alpha = PaperLearner(autoencoder, "float32"), Density(ALPHA)

    def step(tokens: Tensor, number: int) -> None:
        if not is_mask_frozen(number, sizes.steps):
            autoencoder.set_mixing_density(mixing_density_at(number, sizes.steps, sizes.density))
        learner.step(tokens, alpha.weight_at(number, sizes.steps))

    return Run(
        step,
        lambda tokens: autoencoder.latents_and_kernel(unit_tokens(tokens))[0],
        lambda tokens: autoencoder.loss(tokens, 0.0)[1],
        autoencoder.offset,
        printed_flops(sizes, d_model),
    )


def printed_flops(sizes: Sizes, d_model: int) -> float:
    """Operations of a whole run of the printed algorithm, whose steps are all alike, counted from shapes alone."""
    with FakeTensorMode():
        autoencoder = PaperAutoencoder(d_model, sizes.n_latents, sizes.n_hidden, "composite")
        learner, tokens = PaperLearner(autoencoder, "float32"), torch.empty(sizes.batch_tokens, d_model)
        return float(sizes.steps * counted_flops(lambda: learner.step(tokens)))


def ours(name: str, sizes: Sizes, run: Ours, tokens: Float[Tensor, "n d"]) -> Run:
    settings = run.cell.settings
    lens = affine_lens(token_moments(tokens[:LENS_TOKENS])) if settings.lens_name == "affine" else None
    with patch.object(sparse, "scattered_mixing", partial(scattered_mixing, n_own=0 if name == SHARED else None)):
        autoencoder = settings.build(tokens.shape[1], lens=lens)
    assert isinstance(autoencoder, BilinearAutoencoder)
    learner = Learner(autoencoder, run.cell.loss, run.training)
    return Run(
        lambda batch, _: learner.step(batch),
        autoencoder.encode,
        lambda unseen: autoencoder.error(unseen).mean(),
        autoencoder.offset,
        our_flops(run, sizes, tokens.shape[1]),
    )


def our_flops(run: Ours, sizes: Sizes, d_model: int) -> float:
    """Operations of a whole run, by the formulas of `quadric plan`, which tests compare with counted ones."""
    found = phases(run.cell.settings, run.cell.loss, d_model, sizes.batch_tokens, sizes.steps)
    return sum((each.last_step - each.first_step + 1) * sum(each.size.flops().values()) for each in found)


def seconds_in_turn(runs: dict[str, Run], sizes: Sizes, tokens: Float[Tensor, "n d"]) -> dict[str, float]:
    """Train all of them, a step of each in turn; returns the seconds of each."""
    seconds = dict.fromkeys(runs, 0.0)
    for number, rows in enumerate(batches(tokens, sizes.batch_tokens, sizes.steps)):
        batch = tokens[rows]
        for name, run in runs.items():
            start = time.perf_counter()
            run.step(batch, number)
            seconds[name] += time.perf_counter() - start
    return seconds


def rows_of(sizes: Sizes, tokens: Float[Tensor, "n d"]) -> list[list[str]]:
    """One row per run of this size."""
    runs = {PRINTED: printed(sizes, tokens.shape[1])}
    runs |= {name: ours(name, sizes, each, tokens) for name, each in settings(sizes).items()}
    seconds, unseen = seconds_in_turn(runs, sizes, tokens), held_out(tokens)
    found = []
    for name, run in runs.items():
        with torch.no_grad():
            error, density = run.error(unseen).item(), hoyer_density(run.latents(unseen), run.offset).mean().item()
        loss = f"{error + ALPHA * density:.3f}" if "default" not in name else "–"
        found.append([
            str(sizes.n_latents), name, f"{seconds[name]:.0f}", f"{seconds[PRINTED] / seconds[name]:.2f}×",
            f"{run.flops / 1e12:.1f}", f"{runs[PRINTED].flops / run.flops:.2f}×",
            f"{error:.3f}", f"{density:.3f}", loss,
        ])  # fmt: skip
        print(*found[-1], sep=" | ", flush=True)
    return found


def rows_at_the_papers_size() -> list[list[str]]:
    """Operations alone: nothing is run."""
    sizes = OF_PAPER
    baseline = printed_flops(sizes, PAPER_WIDTH)
    flops = {PRINTED: baseline} | {
        name: our_flops(each, sizes, PAPER_WIDTH) for name, each in settings(sizes).items() if name != SHARED
    }
    return [
        [str(sizes.n_latents), name, "–", "–", f"{each / 1e12:,.0f}", f"{baseline / each:.2f}×", "–", "–", "–"]
        for name, each in flops.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes for trying the script, written to run_quick")
    quick = parser.parse_args().quick
    tokens = layer_activations(20_000 if quick else 110_000)
    rows = [row for sizes in (QUICK if quick else FULL) for row in rows_of(sizes, tokens)]
    write_table(
        "run_quick" if quick else "run",
        "Whole runs: the printed algorithm and ours",
        ["k", "run", "seconds", "speed", "TFLOP", "saved", "held-out error", "density", f"loss at α = {ALPHA}"],
        rows + rows_at_the_papers_size(),
        f"All steps of composite runs with h = 2k and {ATOMS} atoms per latent, smollm2, residual stream into layer "
        f"{LAYER}, {(QUICK if quick else FULL)[0].steps} steps of {(QUICK if quick else FULL)[0].batch_tokens} tokens, "
        "the same batches for all, a step of each run in turn. The loss is error + α · density on held-out tokens; "
        "each run is scored with its own kernel. The default recipe (affine lens, the 32 strongest latents) minimizes "
        "another loss; its error is that of all latents in the raw product space. The last rows are the paper's size "
        f"(d = {PAPER_WIDTH}, {OF_PAPER.steps} steps of {OF_PAPER.batch_tokens} tokens), by formula. "
        "`python benchmarks/bench_run.py`",
    )


if __name__ == "__main__":
    main()
