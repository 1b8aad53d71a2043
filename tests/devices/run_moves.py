"""Harvest, train and resume on different devices, with a bfloat16 checkpoint, whose `auto` type depends on the device.

`python -m tests.devices.run_moves CHARACTER REPORT WORLD`, with a folder that `make_world` filled.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from tests.devices import simulated

MODEL = ("--corpus", "texts.jsonl", "--block-length", "32", "--sequences-per-forward", "8")
SIZES = ("--prior", "atomic", "--n-latents", "24", "--sequences-per-step", "4")


def main(character: simulated.Character, report: str, world: str) -> None:
    """Write the exit code and the output of every command, and what a wrong device says."""
    os.chdir(world)
    simulated.install(character)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from quadric.cli import main as quadric
    from quadric.data.models import ModelError, chosen_device

    with tempfile.TemporaryDirectory() as folder:
        model = AutoModelForCausalLM.from_pretrained("my-model").to(torch.bfloat16)
        model.save_pretrained(f"{folder}/model")
        AutoTokenizer.from_pretrained("my-model").save_pretrained(f"{folder}/model")
        read = ("--model", f"{folder}/model", *MODEL, "--layer", "2")
        cached, live = ("train", *read, *SIZES, "--cache", f"{folder}/cache"), ("train", *read, *SIZES)
        found = {}
        for name, command in {
            "harvest on the CPU": ("harvest", *read, "--tokens", "1500", "--out", f"{folder}/cache", "--device", "cpu"),
            "train from it": (*cached, "--steps", "4", "--out", f"{folder}/a", "--device", "auto"),
            "resume on the CPU": ("train", "--resume", f"{folder}/a", "--steps", "6", "--device", "cpu"),
            "train on the CPU": (*live, "--steps", "4", "--out", f"{folder}/b", "--device", "cpu"),
            "resume on the device": ("train", "--resume", f"{folder}/b", "--steps", "6", "--device", "auto"),
            "train on the device": (*live, "--steps", "4", "--out", f"{folder}/c", "--device", "auto"),
        }.items():
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = quadric(command)
            found[name] = [code, out.getvalue() if code else ""]
        dtypes = [json.loads(Path(folder, run, "provenance.json").read_text())["model_dtype"] for run in "abc"]
    devices = {name: str(chosen_device(name)) for name in ("auto", simulated.NAME, "sim:0", "cpu")}
    errors = {}
    for name in ("sim:3", "meta", "cuda", "warp"):
        try:
            chosen_device(name)
        except ModelError as error:
            errors[name] = str(error)
    Path(report).write_text(json.dumps({"runs": found, "dtypes": dtypes, "devices": devices, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
