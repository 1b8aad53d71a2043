"""Run every command twice in this process, on the CPU and on a simulated device, and write where the two differ.

`python -m tests.devices.run_commands CHARACTER REPORT WORLD`, with a folder that `make_world` filled.
"""

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.devices import simulated

READ = ("--model", "my-model", "--corpus", "texts.jsonl", "--block-length", "32", "--sequences-per-forward", "8")
SIZES = ("--n-latents", "24", "--steps", "8", "--sequences-per-step", "4")
LIVE = ("train", *READ, "--layer", "2", *SIZES)
TRAININGS: dict[str, tuple[str, ...]] = {
    "atomic": ("--prior", "atomic"),
    "composite": ("--prior", "composite", "--atoms-per-latent", "4.8"),
    "composite CSR": ("--prior", "composite", "--n-hidden", "800", "--atoms-per-latent", "4", "--initial-density",
                      "0.005"),
    "quadratic": ("--prior", "quadratic"),
    "linear": ("--prior", "topk", "batch_topk", "--n-active", "4"),
    "paper": ("--prior", "atomic", "--lens", "paper"),
}  # fmt: skip

TABLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "corpus": (("corpus", "--corpus", "texts.jsonl"),),
    "harvest": (("harvest", *READ, "--layer", "2", "--tokens", "500", "--out", "cache", "DEVICE"),),
    "plan": (("plan", *READ, "--layer", "2", *SIZES, "--prior", "atomic"),),
    "train": tuple((*LIVE, *flags, "--out", "runs/new", "DEVICE") for flags in TRAININGS.values()),
    "evaluate": (("evaluate", "runs/demo", "--tokens", "300", "--spliced-tokens", "200", "DEVICE"),),
    "report": (("report", "runs/demo"),),
    "compare": (("compare", "runs/demo", "runs/demo"),),
    "site": (("site", "runs/demo", "--tokens", "600", "--out", "site", "DEVICE"),),
    "explain": (("explain", "runs/demo", "Monday comes", "DEVICE"),),
    "export": (
        ("export", "runs/demo", "--to", "saelens", "--out", "exported"),
        ("export", "runs/demo", "--to", "saebench", "--out", "exported"),
        ("export", "runs/demo", "--to", "neuronpedia", "--out", "exported", "DEVICE"),
        ("export", "runs/demo", "--to", "delphi", "--out", "exported", "DEVICE"),
    ),
    "sweep": (
        ("sweep", *READ, *SIZES, "--layers", "2", "--prior", "composite", "topk", "--atoms-per-latent", "4.8",
         "--n-active", "4", "--held-out-tokens", "64", "--out", "runs/grid", "DEVICE"),
    ),
    "figures": (("figures", "runs/demo", "--out", "figures"),),
    "concepts": (("concepts", "runs/demo", "--corpus-tokens", "200", "DEVICE"),),
    "probe": (("probe", "runs/demo", "--data", "labelled.csv", "--rows", "40", "--seeds", "2", "DEVICE"),),
    "steer": (
        ("steer", "runs/demo", "--latent", "3", "--prompts", "prompts.txt", "--to", "0.05", "--seeds", "0",
         "--new-tokens", "3", "--corpus-tokens", "300", "DEVICE"),
    ),
    "ablate": (("ablate", "runs/demo", "--latents", "2", "--sequences", "2", "--texts", "40", "DEVICE"),),
}  # fmt: skip
"""Commands by name; DEVICE stands for the flag."""
MISSING = {
    "demo": "downloads a language model; its parts are train, evaluate and site",
    "label": "asks an endpoint about stored evidence",
    "view": "serves until it is stopped",
}
"""Commands without a simulated run, each with its reason; the list only shrinks."""
TIMES = re.compile(r"\d+(\.\d+)? ?(s|ms|min|tokens/s|steps/s)\b|\d[\d,]* tokens/s|[━╸╺ ]{4,}|\d\d:\d\d(:\d\d)?")

PROGRESS = re.compile(r"^.*: [\d,]+ of [\d,]+.*\n", re.MULTILINE)
MEASURES_TIME = ("plan",)
"""Commands that print what they measured."""


def main(character: simulated.Character, report: str, world: str) -> None:
    """Run all commands of the table."""
    os.chdir(world)
    simulated.install(character)
    from quadric.cli import main as quadric

    found: dict[str, Any] = {}
    for name, commands in TABLE.items():
        for number, command in enumerate(commands):
            printed = []
            before = simulated.operations()
            for device in ("cpu", simulated.NAME):
                flags = [part for each in command for part in (("--device", device) if each == "DEVICE" else (each,))]
                printed.append(_printed(quadric, flags))
            code, text = printed[1]
            (_, cpu), (code, text) = printed
            ran = simulated.operations() - before
            found[f"{name} {number}"] = {"code": code, "text": text, "cpu": cpu, "operations": ran}
    Path(report).write_text(json.dumps(found, indent=1))


def _printed(quadric: Any, command: list[str]) -> tuple[int, str]:
    """Exit code and output, without times and names of folders, of a command in a copy of the world."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(".", folder, dirs_exist_ok=True)
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = quadric(command)
            except BaseException:
                code = -1
                traceback.print_exc()
        written = sorted(str(each.relative_to(folder)) for each in Path(folder).rglob("*") if each.is_file())
    text = TIMES.sub("", PROGRESS.sub("", out.getvalue().replace(folder, "FOLDER")))
    text = "" if command[0] in MEASURES_TIME else text
    return code, text + "\n".join(re.sub(r"[0-9a-f]{8,}", "", each) for each in written)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
