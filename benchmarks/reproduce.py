"""Reproduce the paper at small size into docs/results/: harvest, sweep, figures, concepts, planted manifolds, claims.

If interrupted, run the same command again: finished stages are not repeated.

Budget: an hour on two cores, for SmolLM2-135M (d = 576), k = 432, h = 864, 128 steps of 2,048 tokens. It took 56
minutes: harvest 4, training and measuring 56 cells 49, figures 1, concepts 1, planted manifolds 2. Since then, planted
manifolds take about ten, and concepts read 8,192 tokens more.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from paper_claims import claims_page

from quadric._files import write_atomically
from quadric.autoencoders import load_pretrained
from quadric.cli import main as quadric
from quadric.cli.progress import progress
from quadric.evidence import EvidenceSettings, collect, open_cached, text_behind
from quadric.geometry.dictionary import require_bilinear
from quadric.runs.folder import autoencoder_folders, evidence_folder

ROOT = Path(__file__).parents[1]
ALPHAS = "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"
# 1.85 % of 864 atoms are 16 per latent, as many as the paper's 0.1 % of 16,384.
SIZES = (
    "--n-latents 432 --mixing-density 0.0185 --steps 128 --sequences-per-step 8 --epochs 2 "
    "--checkpoint-every 32 --keep-checkpoints 1 --held-out-tokens 8192"
)


def sweeps(options: argparse.Namespace) -> list[str]:
    """The sweep commands, as typed in a shell."""
    shared = f"--recipe paper {options.sizes} --out {shlex.quote(str(options.work / 'sweep'))} {options.more}".strip()
    return [
        f"quadric sweep --layers {options.layers} --prior atomic composite quadratic topk --seeds 0 1 2 {shared}",
        f"quadric sweep --layers {options.main_layer} --prior composite quadratic --alpha {options.alphas} {shared}",
    ]


def call(command: str) -> None:
    """Run one quadric command in this process."""
    print(f"$ {command}", file=sys.stderr, flush=True)
    if code := quadric(shlex.split(command)[1:]):
        sys.exit(code)


def sweep(options: argparse.Namespace) -> None:
    for command in sweeps(options):
        call(command)


def main_dictionary(options: argparse.Namespace) -> Path:
    """Folder of the composite autoencoder that gets evidence: the first seed at the main layer."""
    wanted = f"resid_pre.{options.main_layer}-composite-"
    for run in sorted((options.work / "sweep" / "runs").iterdir()):
        for name, folder in autoencoder_folders(run).items():
            if name.startswith(wanted) and name.endswith("-alpha0.3-seed0"):
                return folder
    raise FileNotFoundError(f"no {wanted}…-alpha0.3-seed0 in {options.work}; sweep layer {options.main_layer} first")


def evidence(options: argparse.Namespace) -> None:
    """Collect evidence for the main dictionary from the stored activations."""
    folder = main_dictionary(options)
    autoencoder = require_bilinear(load_pretrained(folder))
    place = f"resid_pre.{options.main_layer}"
    caches = (options.work / "sweep" / "activations").iterdir()
    cache = next(each for each in caches if place in each.name.split("+"))
    stream = open_cached(autoencoder.provenance, cache, 4096)
    text = text_behind(stream, options.model)
    settings = EvidenceSettings(n_points=1000)
    with progress() as display, display.tokens("evidence") as show:
        # Stored inside the autoencoder's folder, so that quadric view can show that folder as a run.
        where = evidence_folder(folder, folder.name)
        collect(autoencoder, stream, where, n_tokens=32768, settings=settings, text=text, on_progress=show)


def figures(options: argparse.Namespace) -> None:
    call(f"quadric figures {shlex.quote(str(options.work / 'sweep'))} --out {shlex.quote(str(options.results))}")


def concepts(options: argparse.Namespace) -> None:
    """Find concepts in the first seed of every dictionary at α = 0.3.

    Quadratic dictionaries take a minute each, so they are searched at the main layer only.
    """
    folders = [
        folder
        for run in sorted((options.work / "sweep" / "runs").iterdir())
        for name, folder in autoencoder_folders(run).items()
        if name.endswith("-seed0") and ("-alpha0.3-" in name or "-topk-" in name)
        if "-quadratic-" not in name or name.startswith(f"resid_pre.{options.main_layer}-")
    ]
    where = " ".join(shlex.quote(str(folder)) for folder in folders)
    places = {"--model": options.model, "--corpus": options.corpus}
    given = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in places.items() if value)
    call(f"quadric concepts {where} {given} --out {shlex.quote(str(options.results / 'concepts.csv'))}")


def planted(options: argparse.Namespace) -> None:
    command = [sys.executable, str(Path(__file__).parent / "bench_planted.py"), *shlex.split(options.planted)]
    subprocess.run([*command, "--out", str(options.results)], check=True)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "sweep": sweep,
    "evidence": evidence,
    "figures": figures,
    "concepts": concepts,
    "planted": planted,
}


def stored(path: Path) -> dict[str, float]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def add(path: Path, name: str, seconds: float) -> None:
    """Add the seconds of a stage to those of earlier attempts."""
    whole = stored(path)
    whole[name] = whole.get(name, 0.0) + seconds
    write_atomically(path, (json.dumps(whole, indent=1) + "\n").encode())


def run(options: argparse.Namespace) -> None:
    """Run every unfinished stage and write the page of claims."""
    options.work.mkdir(parents=True, exist_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)
    finished, spent = options.work / "finished.json", options.work / "spent.json"
    for name, stage in STAGES.items():
        if name in stored(finished):
            continue
        started = time.monotonic()
        try:
            stage(options)
        finally:  # count the time of interrupted attempts too
            add(spent, name, time.monotonic() - started)
        add(finished, name, stored(spent)[name])
    page = claims_page(options.results, options.work / "sweep", sweeps(options), stored(spent))
    write_atomically(options.results / "claims.md", page.encode())
    print(f"wrote {options.results / 'claims.md'}")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--work", type=Path, default=Path("runs/reproduce"), help="folder for the sweep and its activations"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results", help="folder for figures and tables")
    parser.add_argument("--layers", default="4,14,24")
    parser.add_argument("--main-layer", default="14", help="layer of the sweep over alpha")
    parser.add_argument("--alphas", default=ALPHAS)
    parser.add_argument("--sizes", default=SIZES, help="size flags of both sweeps")
    parser.add_argument("--more", default="", help="further flags of both sweeps, e.g. another model and text")
    parser.add_argument(
        "--model", default=None, help="location of the language model, if its name is not enough to find it"
    )
    parser.add_argument("--corpus", default=None, help="location of the text, likewise")
    parser.add_argument("--planted", default="", help="flags of bench_planted.py")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
