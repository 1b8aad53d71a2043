"""Reproduce the paper at its own proportions, k = 8 d and h = 16 d, at one middle layer: hours, resumable.

Cells are trained most important first; after each of them the page is written anew, so a partial result is a result. If
interrupted or killed, run the same command again.

    python benchmarks/reproduce_large.py --plan              the cells and their cost; nothing is trained
    python benchmarks/reproduce_large.py                     everything
    python benchmarks/reproduce_large.py --only composite    cells whose name contains "composite"
    python benchmarks/reproduce_large.py --only k576- k288-  the small cells of the figure over k

Cells in the record beside the page, which may be another machine's, are not trained again; `--again composite` trains
them all the same, which comparisons with new cells need, because the record has no weights.
"""

import argparse
import shlex
import sys
from math import isinf
from pathlib import Path
from typing import get_args

from large_cells import (
    ATOMS_PER_LATENT,
    CURVE_TOKENS,
    Settings,
    activations,
    cells,
    checked_layer,
    harvest_both,
    measure_cell,
    measure_linearity,
    name_of,
    only_cell,
    stored_tokens,
    train_cell,
    widths_of,
)
from large_measured import (
    compare_finished,
    compare_over_training,
    measure_floor,
    read_record,
    recorded_cells,
    restore_record,
    write_record,
)
from large_page import write_page

from quadric._io.locks import only_writer
from quadric.cli.progress import Display, progress
from quadric.data import describe, find_model
from quadric.data.corpus import CorpusConfig
from quadric.data.models import load_shape
from quadric.run.config import RunConfig
from quadric.run.recipes import PAPER
from quadric.studies.planning.costs import LinearStep, phases
from quadric.studies.planning.planning import matmul_rate
from quadric.studies.sweep.rows import row_path
from quadric.train import Learner
from quadric.train.settings import GradientDtype

ROOT = Path(__file__).parents[1]


def settings_of(options: argparse.Namespace) -> Settings:
    """Sizes relative to the width of the model."""
    d_model = load_shape(find_model(options.model)).d_model
    largest = options.k or 8 * d_model
    if not options.initial_atoms >= ATOMS_PER_LATENT:
        raise ValueError(
            f"--initial-atoms {options.initial_atoms:g} is below the {ATOMS_PER_LATENT:g} that latents keep; "
            f"give at least {ATOMS_PER_LATENT:g}"
        )
    return Settings(
        model=options.model,
        corpus=CorpusConfig(
            source=options.corpus, document_separator=options.document_separator, block_length=options.block_length
        ),
        layer=checked_layer(options.model, options.layer, 0.5),
        n_latents=largest,
        widths=tuple(options.widths) if options.widths is not None else widths_of(d_model, largest),
        n_active=options.n_active,
        initial_atoms=None if isinf(options.initial_atoms) else options.initial_atoms,
        gradient_dtype=options.gradient_dtype,
        steps=options.steps,
        alpha_warmup_steps=options.alpha_warmup,
        learning_rate=options.learning_rate,
        learning_rate_decay=options.learning_rate_decay,
        sequences_per_step=options.sequences_per_step,
        tokens=options.tokens,
        held_out_tokens=options.held_out_tokens,
        checkpoint_every=options.curve_every,
    )


def chosen(configs: list[RunConfig], only: list[str]) -> list[RunConfig]:
    """The cells whose name contains one of the given words; all without words."""
    found = [each for each in configs if not only or any(word in name_of(each) for word in only)]
    if not found:
        names = ", ".join(map(name_of, configs))
        raise ValueError(f"--only {' '.join(only)} fits no cell; give parts of: {names}")
    return found


def print_plan(configs: list[RunConfig], settings: Settings) -> None:
    """FLOPs, memory and hours of the cells to train."""
    d_model, rate = load_shape(find_model(settings.model)).d_model, matmul_rate()
    batch = settings.sequences_per_step * settings.corpus.block_length
    total = 0.0
    print(
        f"{'TFLOP':>9} {'hours':>6} {'GiB':>5}  cell (hours at the {rate / 1e9:.0f} GFLOP/s just measured; expect more)"
    )
    for config in configs:
        cell = only_cell(config)
        parts = phases(cell.settings, cell.loss, d_model, batch, config.training.steps)
        if isinstance(parts[0].size, LinearStep):
            print(f"{'small':>9} {'':>6} {'':>5}  {cell.name}")
            continue
        flops = sum((each.last_step - each.first_step + 1) * sum(each.size.flops().values()) for each in parts)
        peak = max(each.size.state_bytes + each.size.working_bytes for each in parts)
        total += flops
        print(f"{flops / 1e12:9.1f} {flops / rate / 3600:6.2f} {peak / 2**30:5.1f}  {cell.name}", flush=True)
    print(f"{total / 1e12:9.1f} {total / rate / 3600:6.2f}        all of them", flush=True)


def run(options: argparse.Namespace) -> None:
    """Train and measure the chosen cells, and write the page after each of them."""
    settings = settings_of(options)
    describe(activations(settings))  # an unknown corpus is an error before anything is written
    configs = cells(settings, options.work)
    wanted = chosen(configs, options.only)
    again = chosen(configs, options.again) if options.again else []
    record = read_record(settings, options.results)
    measured = {name for name in map(name_of, configs) if row_path(options.work, name).is_file()}
    measured |= recorded_cells(record)
    missing = [each for each in configs if each in again or (each in wanted and name_of(each) not in measured)]
    if not options.page:
        print_plan(missing, settings)
    if options.plan:
        return
    options.work.mkdir(parents=True, exist_ok=True)
    with only_writer(options.work, "reproduce_large.py"), progress() as display:
        restore_record(record, options.work)
        if not options.page:
            harvest_both(settings, options.work, display.report)
            announce("floor: PCA of xxᵀ")
            measure_floor(settings, options.work)
            for config in missing:
                train_and_measure(config, settings, options, display)
                publish(configs, settings, options)
                compare_finished(configs, settings, options.work)
            compare_finished(configs, settings, options.work)  # what a kill has left out
            compare_over_training(configs, settings, options.work)
    print(f"wrote {publish(configs, settings, options)}")


def train_and_measure(config: RunConfig, settings: Settings, options: argparse.Namespace, display: Display) -> None:
    """Train one cell, with a curve of its held-out error, and store its row."""
    name, held_out_tokens = name_of(config), min(CURVE_TOKENS, settings.held_out_tokens)
    train_cell(
        config,
        options.work,
        stored_tokens(settings, options.work, "held_out", held_out_tokens),
        lambda learner: display.report(name, learner.step_index, settings.steps, words=_said(learner)),
    )
    announce(f"measuring {name}")
    measure_linearity(config, options.work, settings)
    measure_cell(config, options.work, settings)


def publish(configs: list[RunConfig], settings: Settings, options: argparse.Namespace) -> Path:
    """Write the page and its record from what is measured so far."""
    command = shlex.join(["python", "benchmarks/reproduce_large.py", *(o for o in options.given if o != "--page")])
    write_record(configs, settings, options.work, options.results)
    return write_page(configs, settings, options.work, options.results, command)


def announce(what: str) -> None:
    """Say what takes long and has no progress bar."""
    print(what, file=sys.stderr, flush=True)


def _said(learner: Learner) -> str:
    return f"error {learner.report['error']:.3f}"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", action="store_true", help="print the cells and their cost, and stop")
    parser.add_argument("--page", action="store_true", help="write the page from what is finished, and stop")
    parser.add_argument("--only", nargs="+", default=[], help="cells whose name contains one of these")
    parser.add_argument(
        "--again", nargs="+", default=[], help="cells to train although they are measured, for their weights"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("runs/reproduce-large"), help="folder of activations and runs"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results" / "large", help="tables and figures")
    parser.add_argument("--model", default="smollm2", help="a hub id, a folder, a .gguf file, or smollm2")
    parser.add_argument("--layer", type=int, default=None, help="default: the middle one")
    parser.add_argument("--corpus", default="wikitext-2+wiki-leads")
    parser.add_argument("--document-separator", default=None, help="of a .txt corpus")
    parser.add_argument("--block-length", type=int, default=256, help="tokens per sequence")
    parser.add_argument("--k", type=int, default=None, help="latents of the main cells; default: 8 times the width")
    parser.add_argument(
        "--widths",
        type=int,
        nargs="*",
        default=None,
        help="latents of the figure over k; default: half the width, doubled",
    )
    parser.add_argument("--n-active", type=int, default=32, help="latents per token of TopK")
    # The defaults are those of the committed record, so that the plain command goes on with its missing cells.
    parser.add_argument(
        "--initial-atoms",
        type=float,
        default=ATOMS_PER_LATENT,
        help="atoms per latent that composite cells start with; inf for all, as printed, at three times the cost",
    )
    parser.add_argument(
        "--gradient-dtype",
        choices=get_args(GradientDtype),
        default="bfloat16",
        help="of the products that give the gradients of the atoms; auto on CPUs without bfloat16",
    )
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument(
        "--alpha-warmup",
        type=int,
        default=None,
        help="steps over which α rises; default: the paper's 256, or an eighth of the steps if that is less",
    )
    parser.add_argument("--learning-rate", type=float, default=PAPER.training.rate)
    parser.add_argument(
        "--learning-rate-decay",
        type=float,
        default=PAPER.training.decay,
        help="share of the steps, the last ones, over which the learning rate falls to 0; by default 0, as printed",
    )
    parser.add_argument("--sequences-per-step", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=524_288, help="training tokens to store")
    parser.add_argument("--held-out-tokens", type=int, default=32_768)
    parser.add_argument("--curve-every", type=int, default=32, help="steps between checkpoints and points of the curve")
    options = parser.parse_args(arguments)
    options.given = sys.argv[1:] if arguments is None else arguments
    return options


def main() -> int:
    try:
        run(parsed())
    except (ValueError, OSError) as problem:
        print(f"reproduce_large: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
