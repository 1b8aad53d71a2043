"""The whole pipeline on the embedded model and text: activations, training, evaluation, geometry, evidence, site.

Every stage stores its result in the folder and is skipped if the result exists, so the demo can be interrupted at any
time and continued by the same call.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quadric._io.files import write_atomically
from quadric._io.locks import entries, only_writer
from quadric._io.progress import Progress
from quadric.data import HarvestConfig, harvest_to_folder
from quadric.evaluation import evaluate_on_text
from quadric.evaluation.evaluating import Candidate
from quadric.evaluation.record import keep_in_runs, kept_in_run
from quadric.evaluation.settings import EvaluationSettings
from quadric.evidence import Evidence
from quadric.evidence.labels import MIXED
from quadric.evidence.ranking import worth
from quadric.geometry import DictionaryGeometry
from quadric.run.config import FILE_NAME, RunConfig, read_run_config, write_run_config
from quadric.run.evidence import WantedEvidence
from quadric.run.folder import load, load_all
from quadric.run.recipes import DEMO_TOKENS, demo
from quadric.run.running import is_finished, train_run
from quadric.run.sites import SITE, site_inputs
from quadric.train import Learner
from quadric.viewer.export import build_site
from quadric.viewer.writer import is_site

ACTIVATIONS = "activations"
SUMMARY = "demo.json"
"""File with the latents worth a look, so that a second call only has to read this file."""
PARTS = ("harvest", "training", "errors", "evidence", "geometry", "clusters", "patterns", "pages")
"""What the stages report, in order."""


class WorthALook(NamedTuple):
    """A latent to look at first."""

    latent: int
    label: str
    shape: str
    importance: float
    curvature: float | None = None
    """Share of the variance of z that no linear function of the token explains, measured."""


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """Size of the demo."""

    config: RunConfig
    tokens: int = DEMO_TOKENS
    points: int = 1000
    evaluated: int = 8192
    """Held-out tokens that the dictionary is measured on."""


def default_demonstration(folder: Path) -> Demonstration:
    """The default size: about six minutes on two CPU cores."""
    return Demonstration(config=demo(str(folder / ACTIVATIONS)))


def demonstrate(folder: Path, wanted: Demonstration, on_progress: Progress) -> list[WorthALook]:
    """Run the stages that are not finished, and return three latents worth a look."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file; choose a folder with --out")
    config, reading = wanted.config, wanted.config.reading
    with only_writer(folder, "quadric demo"):
        _prepare(folder, config)
        if not is_finished(folder):
            storage = HarvestConfig(tokens=wanted.tokens)
            harvest_to_folder(reading, storage, folder / ACTIVATIONS, on_progress=on_progress)

            def show(learner: Learner) -> None:
                on_progress("training", learner.step_index, config.training.steps, "steps")

            train_run(folder, callbacks=[show])
        if kept_in_run(folder, config.cells[0].name, load(folder)) is None:
            settings = EvaluationSettings(
                tokens=wanted.evaluated, spliced_tokens=0, model=reading.model, corpus=reading.corpus.source
            )
            candidates = [Candidate(*loaded) for loaded in load_all([str(folder)])]
            keep_in_runs(evaluate_on_text(candidates, settings, on_progress=on_progress))
        evidence = WantedEvidence(
            tokens=wanted.tokens, points=wanted.points, cache=folder / ACTIVATIONS, model=reading.model
        )
        (given,) = site_inputs([folder], evidence, on_progress=on_progress)
        if not is_site(folder / SITE):
            build_site([given], folder / SITE, title="Quadric demo", on_progress=on_progress)
        assert given.geometry is not None
        latents = worth_a_look(given.geometry, given.evidence)
        write_atomically(folder / SUMMARY, json.dumps([latent._asdict() for latent in latents]).encode())
        return latents


def worth_a_look(geometry: DictionaryGeometry, evidence: Evidence, count: int = 3) -> list[WorthALook]:
    """The first latents by the site's ranking with at least two words as labels, no word used twice."""
    table, ranks = geometry.statistics(), worth(evidence, geometry.redundancy)
    found: list[WorthALook] = []
    themes: set[str] = set()
    for latent in np.argsort(-ranks, kind="stable").tolist():
        if not ranks[latent]:
            break
        sides = (*evidence.labels.positive[latent], *evidence.labels.negative[latent])
        words = {word.casefold() for word in sides if word.isalpha() and len(word) > 2 and word != MIXED}
        if len(words) < 2 or words & themes:
            continue
        themes |= words
        found.append(
            WorthALook(
                latent,
                evidence.labels.of(latent),
                table.shape[latent],
                table.importance[latent].item(),
                float(evidence.statistics.curvature[latent]),
            )
        )
        if len(found) == count:
            break
    return found


def _prepare(folder: Path, config: RunConfig) -> None:
    if (folder / FILE_NAME).is_file():
        if read_run_config(folder) != config:
            raise FileExistsError(f"'{folder}' holds another run, not the demo; choose another folder with --out")
        return
    if entries(folder):
        raise FileExistsError(f"'{folder}' exists and is not empty; choose another folder with --out")
    write_run_config(config, folder)
