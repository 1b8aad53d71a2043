"""Reproduce the paper at small size into docs/results/: harvest, sweep, figures, concepts, planted manifolds, claims.

If interrupted, run the same command again: finished stages are not repeated. `--model PATH` (a .gguf file or a folder)
does the same with another language model; layers and sizes follow its depth and width.

Budget: an hour on two cores, for SmolLM2-135M (d = 576), k = 288, h = 576, 256 steps of 2,048 tokens. The page says how
many minutes each stage took.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from large_cells import layers_at
from paper_claims import DEFAULT_SWEEP, OF_NO_MODEL, claims_page

from quadric._io.files import write_atomically
from quadric.cli import main as quadric
from quadric.cli.progress import progress
from quadric.data import find_model
from quadric.data.models import load_shape
from quadric.evidence import EvidenceSettings, collect, open_cached, text_behind
from quadric.geometry.dictionary import check_forms
from quadric.model import load_pretrained
from quadric.run.config import read_run_config
from quadric.run.folder import autoencoder_folders, evidence_folder
from quadric.studies.sweep.rows import alpha_of
from quadric.train import Cell

ROOT = Path(__file__).parents[1]
EMBEDDED = "smollm2"
FRACTIONS = (1 / 8, 1 / 2, 4 / 5)
"""Of the depth of the model; the middle one is the main layer."""
PAPER_ALPHA = 0.3
ALPHAS = "0 0.1 0.3 0.6 1"
SEEDS = "0 1 2"
"""Seeds at the main layer; the other layers have one, because three everywhere would not fit into the hour."""
# Sixteen atoms per latent, as many as the paper's 0.1 % of 16,384. The paper's constant learning rate of 0.03 ends far
# from where 2,048 steps end, for bilinear dictionaries further than for TopK; one that falls comes close to it.
TRAINING = (
    "--atoms-per-latent 16 --steps 256 --learning-rate 0.06 --learning-rate-decay 0.5 --sequences-per-step 8 "
    "--epochs 2 --checkpoint-every 64 --keep-checkpoints 1 --held-out-tokens 8192"
)

POINTS = ("random_latents", "receptive_fields")
"""Figures whose numbers are the points of a drawing, half a megabyte that no one reads."""


def sizes_of(d_model: int) -> str:
    """Size flags for a model of this width: k = d/2, and h = 2 k by default."""
    return f"--n-latents {d_model // 2} {TRAINING}"


def sweeps(options: argparse.Namespace) -> list[str]:
    """The sweep commands, as typed in a shell: the paper's method, then the default."""
    places = {"--model": options.model, "--corpus": options.corpus}
    given = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in places.items() if value)
    shared = " ".join(part for part in (options.sizes, given, options.more) if part)
    printed = f"quadric sweep --recipe paper {shared} --out {shlex.quote(str(options.work / 'sweep'))}"
    default = f"quadric sweep --recipe small {shared} --out {shlex.quote(str(options.work / DEFAULT_SWEEP))}"
    kinds, main = "atomic composite quadratic topk", f"--layers {options.main_layer} --seeds {options.seeds}"
    kinds += "" if options.n_active is None else f" --n-active {options.n_active}"
    return [
        f"{printed} --layers {options.layers} --prior {kinds}",
        f"{printed} {main} --prior {kinds}",
        f"{printed} --layers {options.main_layer} --prior composite quadratic --alpha {options.alphas}",
        f"{default} --layers {options.layers}",
        f"{default} {main}",
    ]


def call(command: str) -> None:
    """Run one quadric command in this process."""
    print(f"$ {command}", file=sys.stderr, flush=True)
    if code := quadric(shlex.split(command)[1:]):
        sys.exit(code)


def sweep(options: argparse.Namespace) -> None:
    """Run all sweeps; those of the default read the activations that the first one stored."""
    link = options.work / DEFAULT_SWEEP / "activations"
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(Path("..") / "sweep" / "activations")
    for command in sweeps(options):
        call(command)


def trained(sweep: Path) -> Iterator[tuple[Cell, Path]]:
    """The trained dictionaries of a sweep, each with its folder."""
    for run in sorted((sweep / "runs").iterdir()):
        folders = autoencoder_folders(run)
        yield from ((cell, folders[cell.name]) for cell in read_run_config(run).cells if cell.name in folders)


def main_dictionary(options: argparse.Namespace) -> Path:
    """Folder of the composite autoencoder that gets evidence: the first seed at the main layer."""
    place = f"resid_pre.{options.main_layer}"
    for cell, folder in trained(options.work / "sweep"):
        if (cell.hook_point, cell.settings.kind, alpha_of(cell), cell.seed) == (place, "composite", PAPER_ALPHA, 0):
            return folder
    raise FileNotFoundError(
        f"no composite dictionary of {place} with α = {PAPER_ALPHA} and seed 0 in {options.work}; "
        f"sweep layer {options.main_layer} first"
    )


def evidence(options: argparse.Namespace) -> None:
    """Collect evidence for the main dictionary from the stored activations."""
    folder = main_dictionary(options)
    autoencoder = check_forms(load_pretrained(folder))
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
    """Draw the figures, and keep what the page shows: the SVG, and the numbers where they are few."""
    sources = " ".join(shlex.quote(str(options.work / name)) for name in ("sweep", DEFAULT_SWEEP))
    call(f"quadric figures {sources} --out {shlex.quote(str(options.results))}")
    for path in [*options.results.glob("*.png"), *(options.results / f"{name}.csv" for name in POINTS)]:
        path.unlink(missing_ok=True)
    for name in OF_NO_MODEL if options.model else ():
        for path in options.results.glob(f"{name}.*"):
            path.unlink()


def concepts(options: argparse.Namespace) -> None:
    """Find concepts in the first seed of every dictionary at the main α of its recipe.

    Quadratic dictionaries take a minute each, so they are searched at the main layer only.
    """
    folders = [
        folder
        for name in ("sweep", DEFAULT_SWEEP)
        for cell, folder in trained(options.work / name)
        if cell.seed == 0 and (alpha_of(cell) in (PAPER_ALPHA, None) or cell.settings.lens_name == "affine")
        if cell.settings.kind != "quadratic" or cell.hook_point == f"resid_pre.{options.main_layer}"
    ]
    where = " ".join(shlex.quote(str(folder)) for folder in folders)
    places = {"--model": options.model, "--corpus": options.corpus}
    given = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in places.items() if value)
    call(f"quadric concepts {where} {given} --out {shlex.quote(str(options.results / 'concepts.csv'))}")


def planted(options: argparse.Namespace) -> None:
    """Planted manifolds, which need no language model: once, unless flags for them are given."""
    if options.planted is None:
        return
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
    parser.add_argument("--model", default=None, help="a .gguf file, a folder or a hub id; default: the embedded one")
    parser.add_argument("--corpus", default=None, help="the text; default: the embedded one")
    parser.add_argument("--work", type=Path, default=None, help="folder for the sweeps; default: runs/reproduce[-NAME]")
    parser.add_argument("--results", type=Path, default=None, help="folder for the page; default: docs/results[/NAME]")
    parser.add_argument("--layers", default=None, help="default: at 1/8, 1/2 and 4/5 of the depth")
    parser.add_argument("--main-layer", default=None, help="layer of the sweep over alpha; default: the middle one")
    parser.add_argument("--alphas", default=ALPHAS)
    parser.add_argument("--seeds", default=SEEDS, help="at the main layer; the other layers have seed 0 only")
    parser.add_argument("--n-active", type=int, default=None, help="latents per token of TopK; default: the paper's 32")
    parser.add_argument("--sizes", default=None, help="size flags of the sweeps; default: k = half the width")
    parser.add_argument("--more", default="", help="further flags of the sweeps")
    parser.add_argument(
        "--planted", default=None, help="flags of bench_planted.py; another model leaves it out unless they are given"
    )
    return with_defaults(parser.parse_args(arguments))


def with_defaults(options: argparse.Namespace) -> argparse.Namespace:
    """Fill in what follows from the model: its layers, sizes and folders."""
    shape = load_shape(find_model(options.model or EMBEDDED))
    layers = layers_at(shape.n_layers, FRACTIONS)
    options.layers = options.layers or ",".join(map(str, layers))
    options.main_layer = options.main_layer or str(layers[len(layers) // 2])
    options.sizes = options.sizes or sizes_of(shape.d_model)
    name = Path(options.model).name.removesuffix(".gguf") if options.model else None
    options.work = options.work or Path("runs") / (f"reproduce-{name}" if name else "reproduce")
    options.results = options.results or ROOT / "docs" / "results" / (name or "")
    if options.model is None and options.planted is None:
        options.planted = ""
    return options


def main() -> int:
    try:
        run(parsed())
    except (ValueError, OSError) as problem:
        print(f"reproduce: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
