"""Steering by the latents of a run: the model, the evidence and the text that its dictionary records."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.data import ActivationConfig, BatchSize, LiveStream, find_model
from quadric.data.corpus import ordered_documents
from quadric.data.hook_points import HookPoint
from quadric.data.models import LanguageModel
from quadric.data.provenance import ProvenanceError, config_from
from quadric.evidence import Evidence
from quadric.geometry.dictionary import check_forms
from quadric.interop.reading import read_dictionary
from quadric.interventions.latents import Latent
from quadric.model import Dictionary
from quadric.run.folder import (
    ablation_file,
    autoencoder_folder,
    autoencoder_folders,
    evidence_folder,
    local_folder,
)
from quadric.studies.steering.ablation import AblationMode, AblationRow, ablation_study, about_centre, write_ablation
from quadric.studies.steering.curve import steering_curve, writable_point
from quadric.studies.steering.reading import text_tokens
from quadric.studies.steering.results import Match, SteeringCurve

CORPUS_TOKENS = 4096
N_TEXTS = 48
ABLATION_LENGTH = 48
"""Tokens of each text that ablation reads."""
FEWEST_LETTERS = 200
"""Held-out texts that are shorter are left out."""


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """A bilinear dictionary of a run, its evidence, and its language model, ready for interventions."""

    autoencoder: Dictionary
    evidence: Evidence
    model: LanguageModel
    point: HookPoint
    config: ActivationConfig
    stream: LiveStream
    """Of the text that the dictionary was trained on."""

    def latent(self, index: int) -> Latent:
        """One latent, about the centre of the tokens."""
        if not 0 <= index < self.autoencoder.n_latents:
            raise ValueError(f"latent={index} is outside 0 … {self.autoencoder.n_latents - 1}")
        return about_centre(self.autoencoder, self.evidence, index)

    def corpus(self, n_tokens: int = CORPUS_TOKENS) -> Float[Tensor, "n d"]:
        """Activations of the first tokens of the training text."""
        parts: list[Tensor] = []
        for forward in self.stream.passes():
            parts.append(forward.batch.activations[str(self.point)])
            if sum(map(len, parts)) >= n_tokens:
                break
        return torch.cat(parts)[:n_tokens]

    def held_out_texts(self, count: int = N_TEXTS) -> list[str]:
        """The first held-out documents that are not very short; whatever there is, if all are."""
        held_out = replace(self.config.corpus, split="held_out")
        texts = [document.text for document in islice(ordered_documents(held_out), 8 * count)]
        return [each for each in texts if len(each) >= FEWEST_LETTERS][:count] or texts[:count]


def open_run(
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    model: str | None = None,
    corpus: str | None = None,
    device: str = "auto",
) -> OpenedRun:
    """Load a bilinear dictionary of a run with its evidence and its language model.

    Args:
        run: Run folder whose evidence has been collected.
        name: Which autoencoder, if the run has several.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Location of the text, likewise.
        device: Of the language model.

    Returns:
        The opened run.

    Example:
        >>> from quadric.studies.steering import open_run
        >>> opened = open_run("runs/demo")
        >>> str(opened.point), opened.evidence.n_tokens
        ('resid_pre.2', 1500)
        >>> latent = opened.latent(3)
    """
    folder = local_folder(run)
    own = autoencoder_folder(folder, name)
    autoencoder = check_forms(read_dictionary(own))
    evidence = Evidence.load(evidence_folder(folder, own.resolve().name))
    config = config_from(autoencoder.provenance, model=model, corpus=corpus)
    source = find_model(config.model, config.model_revision)
    if source.revision != autoencoder.provenance.model_revision:
        raise ProvenanceError(
            f"the dictionary was trained on {autoencoder.provenance.model} "
            f"({autoencoder.provenance.model_revision}), not on {source.name} ({source.revision}); give the location "
            "of its own model with --model"
        )
    stream = LiveStream.open(config, device=device, batch=BatchSize(tokens=CORPUS_TOKENS))
    return OpenedRun(
        autoencoder=autoencoder,
        evidence=evidence,
        model=stream.model,
        point=writable_point(stream.model, autoencoder.provenance),
        config=config,
        stream=stream,
    )


def steer_run(
    run: str | os.PathLike[str],
    latent: int,
    prompts: Sequence[str],
    *,
    name: str | None = None,
    to: Sequence[float] | None = None,
    topk: str | os.PathLike[str] | None = None,
    match: Match | Sequence[Match] = "hellinger",
    seeds: Sequence[int] = (0, 1, 2),
    new_tokens: int = 16,
    corpus_tokens: int = CORPUS_TOKENS,
    model: str | None = None,
    corpus: str | None = None,
    device: str = "auto",
    on_progress: Progress = no_progress,
) -> SteeringCurve:
    """`quadric.steering_curve` for a latent of a run, on the text of its corpus.

    Args:
        run: Run folder whose evidence has been collected.
        latent: Index of the latent.
        prompts: At least four.
        name: Which autoencoder, if the run has several.
        to: Values of z; by default quantiles.
        topk: Run or folder with a linear dictionary of the same hook point.
        match: The effect, or several, that baselines are matched by.
        seeds: Each draws prompts, texts, random baselines and continuations.
        new_tokens: Length of the sampled continuations.
        corpus_tokens: Tokens of the training text that distances and directions are estimated from.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Location of the text, likewise.
        device: Of the language model.
        on_progress: Called after every measurement.

    Returns:
        The curve.

    Example:
        >>> from quadric.studies.steering import steer_run
        >>> prompts = ["Monday comes after", "All happy families", "And then comes", "Sunday is"]
        >>> curve = steer_run("runs/demo", 3, prompts, to=[0.5], seeds=[0], new_tokens=2, corpus_tokens=500)
        >>> [row.method for row in curve.rows][:2]
        ['none', 'quadric']
    """
    opened = open_run(run, name=name, model=model, corpus=corpus, device=device)
    return steering_curve(
        opened.model,
        opened.latent(latent),
        opened.evidence,
        prompts,
        corpus=opened.corpus(corpus_tokens),
        texts=opened.held_out_texts(),
        to=to,
        topk=None if topk is None else load_linear(topk),
        match=match,
        seeds=seeds,
        new_tokens=new_tokens,
        on_progress=on_progress,
    )


def ablate_run(
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    latents: int = 50,
    mode: AblationMode = "zero",
    sequences: int = 6,
    texts: int = 120,
    seed: int = 0,
    model: str | None = None,
    corpus: str | None = None,
    device: str = "auto",
    on_progress: Progress = no_progress,
) -> list[AblationRow]:
    """`ablation_study` of a run, on its held-out text; kept in the run folder, where figures find it.

    Args:
        run: Run folder whose evidence has been collected.
        name: Which autoencoder, if the run has several.
        latents: How many of the sparsest distinct latents.
        mode: "zero" removes what a token has in the latent's own space; "rest" projects z to its median.
        sequences: Sequences read per latent.
        texts: Held-out documents that they are chosen from.
        seed: Of the controls.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Location of the text, likewise.
        device: Of the language model.
        on_progress: Called after every latent.

    Returns:
        One row per latent.

    Example:
        >>> from quadric.studies.steering import ablate_run
        >>> rows = ablate_run("runs/demo", latents=3, sequences=2)
        >>> len(rows)
        3
    """
    for what, count in (("latents", latents), ("sequences", sequences), ("texts", texts)):
        if count < 1:
            raise ValueError(f"{what}={count} is not positive; give at least 1")
    opened = open_run(run, name=name, model=model, corpus=corpus, device=device)
    done: list[AblationRow] = []

    def report(row: AblationRow) -> None:
        done.append(row)
        on_progress("latents", len(done), latents, "")

    rows = ablation_study(
        opened.model,
        opened.point,
        opened.autoencoder,
        opened.evidence,
        text_tokens(opened.model, opened.held_out_texts(texts), ABLATION_LENGTH),
        n_latents=latents,
        mode=mode,
        n_sequences=sequences,
        seed=seed,
        on_row=report,
    )
    folder = local_folder(run)
    write_ablation(rows, ablation_file(folder, autoencoder_folder(folder, name).resolve().name))
    return rows


def load_linear(run: str | os.PathLike[str]) -> Dictionary:
    """The linear dictionary of a run; of a run with several dictionaries, its first linear one."""
    folder = local_folder(run)
    loaded = [read_dictionary(each) for each in autoencoder_folders(folder).values()]
    linear = [each for each in loaded if each.is_linear]
    if not linear:
        raise ValueError(f"'{run}' has no TopK dictionary; train one with quadric train --prior topk")
    return linear[0]


def read_prompts(path: Path) -> list[str]:
    """The lines of a text file, without empty ones and without those that begin with #."""
    if not path.is_file():
        raise FileNotFoundError(f"no file '{path}'; give a text file with one prompt per line")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"'{path}' is not UTF-8 text; give a text file with one prompt per line") from None
    prompts = [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]
    if not prompts:
        raise ValueError(f"'{path}' has no prompts; write one per line")
    return prompts
