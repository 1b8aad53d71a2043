"""Question: which prior reconstructs best, at equal latents and at equal atoms? SmolLM2-135M, one layer, equal tokens.

The paper does not say whether it compares priors at equal k or at equal h, so this benchmark shows both. Everything
trains from one cache of activations in one run. If interrupted, run the same command again to resume.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

from measure import write_table

from quadric.cli.progress import TrainingProgress, progress
from quadric.data import ActivationConfig, HarvestConfig, harvest_to_folder
from quadric.evaluation import Evaluation, EvaluationSettings
from quadric.evaluation.evaluating import Candidate, evaluate_on_text
from quadric.model import load_pretrained
from quadric.run.config import RunConfig
from quadric.run.folder import autoencoder_folders
from quadric.run.recipes import Recipe, run_of
from quadric.run.running import create_run, is_finished, train_run
from quadric.train import Training

LAYER = "15"
DENSITY = 0.002
"""Share of C that composite dictionaries keep."""


def wanted(options: argparse.Namespace) -> RunConfig:
    """All dictionaries with k latents (2k atoms), and the atomic and linear ones again with 2k latents."""
    k = options.latents
    recipe = Recipe(
        settings={"n_latents": k, "lens": "paper", "atoms_per_latent": DENSITY * 2 * k, "initial_density": 1.0},
        training=Training(steps=options.steps, checkpoint_every=25),
        sequences_per_step=16,
        epochs=options.epochs,
    )
    wider = replace(recipe, settings={"n_latents": 2 * k, "lens": "paper"})
    activations, seeds = ActivationConfig(hook_points=LAYER), tuple(range(options.seeds))
    equal_k = run_of(recipe, activations, ("quadratic", "composite", "atomic", "topk"), seeds=seeds)
    equal_h = run_of(wider, activations, ("atomic", "topk"), seeds=seeds)
    return replace(equal_k, cells=equal_k.cells + equal_h.cells, cache=str(options.work / "cache"))


def trained(options: argparse.Namespace) -> Path:
    """Harvest and train whatever is missing; returns the run folder."""
    config, folder = wanted(options), options.work / f"run-{options.latents}-{options.steps}-{options.seeds}"
    storage = HarvestConfig(tokens=options.tokens, dtype="float16", sequences_per_shard=32)
    with progress() as display, display.tokens("harvest") as show:
        harvest_to_folder(config.reading, storage, options.work / "cache", on_progress=show)
    if not folder.exists():
        create_run(config, folder)
    if not is_finished(folder):
        with progress() as display:
            training = TrainingProgress(display, config.training.steps, len(config.cells))
            train_run(folder, on_open=training.open, callbacks=[training])
    return folder


def row(label: str, found: list[Evaluation]) -> list[str]:
    """Mean (range) over seeds."""
    errors = [each.measures.error.mean for each in found]
    recovered = [each.recovered.cross_entropy(each.recovered.zero) for each in found if each.recovered]
    against_mean = [each.recovered.cross_entropy(each.recovered.mean) for each in found if each.recovered]
    return [
        label,
        f"{found[0].n_latents:,}",
        f"{found[0].n_hidden:,}" if found[0].n_hidden else "–",
        f"{statistics.mean(errors):.4f} ({min(errors):.4f}–{max(errors):.4f})",
        f"{statistics.mean(each.measures.density for each in found):.3f}",
        f"{statistics.mean(each.measures.dead_share for each in found):.1%}",
        *(f"{statistics.mean(values):.1%}" if values else "–" for values in (recovered, against_mean)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("runs/bench-priors"), help="folder for the cache and the run")
    parser.add_argument("--latents", type=int, default=1152)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=410_000, help="activations in the cache, one per token")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the cache")
    parser.add_argument("--spliced-tokens", type=int, default=2048)
    options = parser.parse_args()
    folder = trained(options)
    candidates = [
        Candidate(folder.name, name, load_pretrained(path)) for name, path in autoencoder_folders(folder).items()
    ]
    found = evaluate_on_text(candidates, EvaluationSettings(spliced_tokens=options.spliced_tokens))
    groups: dict[tuple[str, int], list[Evaluation]] = {}
    for each in found:
        groups.setdefault((each.kind, each.n_latents), []).append(each)
    ordered = sorted(groups.items(), key=lambda item: statistics.mean(each.measures.error.mean for each in item[1]))
    write_table(
        "priors",
        f"Held-out error of the priors and of TopK, SmolLM2-135M, residual stream into layer {LAYER}",
        ["dictionary", "k", "h", "error (range over seeds)", "density", "dead", "CE recovered (zero)", "(mean)"],
        [row(kind, each) for (kind, _), each in ordered],
        f"`python benchmarks/bench_priors.py --latents {options.latents} --steps {options.steps}`: "
        f"{options.steps} steps of 16 × 256 tokens ({options.tokens:,} tokens read up to {options.epochs} times), "
        f"{options.seeds} seeds, "
        f"{found[0].measures.n_tokens:,} held-out tokens, alpha 0.3, composite density 0.2 %, TopK K=32. Rows with the "
        "same k compare at equal latents. Quadratic and composite with h atoms against atomic and TopK with as many "
        "latents compare at equal atoms. CE recovered is relative to zero and mean ablation; bilinear dictionaries "
        "are given the sign of x.",
    )


if __name__ == "__main__":
    main()
