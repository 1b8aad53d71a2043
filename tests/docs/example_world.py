"""The folder in which examples of docstrings run: a tiny model, its text, a run with evidence, and a sweep."""

import json
from pathlib import Path

from quadric.cli import main
from quadric.evidence import Job
from quadric.run.evidence import WantedEvidence, evidence_for
from quadric.run.folder import autoencoder_folders, evidence_folder, load
from tests.data.tiny import save_tiny

TOPICS = {"day": "Monday comes after Sunday, and then comes Tuesday.", "family": "All happy families are alike."}
ACTIVATIONS = (
    "--model", "my-model", "--corpus", "texts.jsonl", "--block-length", "32", "--sequences-per-forward", "8",
    "--device", "cpu",
)  # fmt: skip
TRAINING = (
    "--n-latents", "24", "--atoms-per-latent", "4.8", "--steps", "8", "--sequences-per-step", "4",
)  # fmt: skip


def make_example_world() -> None:
    """Fill the current folder; paths are relative, so that runs find their model and text from a copy as well."""
    save_tiny(Path("my-model"))
    documents = [{"text": f"{number}. {TOPICS[topic]}", "topic": topic} for number in range(100) for topic in TOPICS]
    Path("texts.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    assert main(["train", *ACTIVATIONS, "--layer", "2", "--prior", "composite", *TRAINING, "--out", "runs/demo"]) == 0
    _collect_evidence(Path("runs/demo"))
    grid = ("--layers", "2", "--prior", "composite", "topk", "--n-active", "4", "--held-out-tokens", "64")
    assert main(["sweep", *ACTIVATIONS, *TRAINING, *grid, "--out", "runs/sweep"]) == 0


def _collect_evidence(run: Path) -> None:
    (name,) = autoencoder_folders(run)
    job = Job(load(run), evidence_folder(run, name))
    evidence_for([job], WantedEvidence(tokens=1500, points=100, device="cpu"))
