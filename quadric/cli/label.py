"""`quadric label`: labels written by a language model."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.flags import OptionalText
from quadric.cli.output import say

if TYPE_CHECKING:
    from quadric.evidence import Evidence
    from quadric.evidence.labelling import LabellingReport, ScoringReport
    from quadric.evidence.record import LabelScore

KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
ENDPOINTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}


@dataclass(frozen=True, kw_only=True)
class Label:
    """Let a language model write short labels for the most important latents, and score them on held-out contexts.

    Two further requests per label ask the same model where in other documents the latent fires, given its label.
    Labels and answers are stored as they arrive: the same command requests only the missing ones. The key is read from
    the environment and never stored.

    Example: quadric label runs/demo --endpoint http://localhost:8000/v1 --model my-model --top 20
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder whose evidence has been collected, e.g. by quadric site."""
    model: str
    """Name of the model at the endpoint."""
    api: Literal["openai", "anthropic"] = "openai"
    """Protocol of the endpoint; most local servers use openai."""
    endpoint: OptionalText = None
    """Base address, e.g. http://localhost:8000/v1; by default the protocol's own."""
    key_variable: OptionalText = None
    """Environment variable with the key; by default OPENAI_API_KEY or ANTHROPIC_API_KEY."""
    name: OptionalText = None
    """Which autoencoder, if the run has several."""
    top: int = 20
    """How many of the most important latents."""
    concurrency: int = 4
    """Number of concurrent requests."""
    score: bool = True
    """Score the labels; --no-score leaves them unevaluated and takes a third of the requests."""
    show_prompt: bool = False
    """Print the prompt for the first of them, and send nothing."""

    def run(self) -> int:
        from quadric.cli.progress import progress
        from quadric.evidence import Evidence
        from quadric.evidence.endpoints import Endpoint
        from quadric.evidence.labelling import label_latents, prompt_for, score_labels
        from quadric.run.folder import autoencoder_folder, evidence_folder

        if self.top < 1:
            raise ValueError(f"top={self.top} is not positive; give how many latents to label")
        own = autoencoder_folder(self.run_folder, self.name)
        folder = evidence_folder(self.run_folder, own.resolve().name)
        evidence = Evidence.load(folder)
        latents = self._most_important(own, evidence)
        if self.show_prompt:
            say(prompt_for(evidence, latents[0]))
            return 0
        variable = self.key_variable or KEYS[self.api]
        key = os.environ.get(variable)
        if key is None and self.endpoint is None:
            raise ValueError(f"the environment has no {variable}; set it, or name another with --key-variable")
        endpoint = Endpoint(url=self.endpoint or ENDPOINTS[self.api], model=self.model, api=self.api, key=key)
        with progress() as display:
            report = label_latents(folder, latents, endpoint, concurrency=self.concurrency, on_progress=display.report)
            labelled, scores = list(report.labelled), None
            if self.score and labelled and evidence.labels.scores is None:
                say(
                    "labels are not scored: this evidence has no held-out documents; collect it again with quadric "
                    "site",
                    file=sys.stderr,
                )
            elif self.score and labelled:
                scores = score_labels(
                    folder, labelled, endpoint, concurrency=self.concurrency, on_progress=display.report
                )
        return _said(report, latents, scores)

    def _most_important(self, folder: Path, evidence: "Evidence") -> list[int]:
        from quadric.geometry import statistics
        from quadric.interop.reading import read_dictionary

        autoencoder = read_dictionary(folder)
        evidence.check_weights(autoencoder)
        importance = statistics(autoencoder).importance
        found: list[int] = importance.argsort(descending=True, stable=True)[: self.top].tolist()
        return found


def _said(report: "LabellingReport", latents: list[int], scores: "ScoringReport | None") -> int:
    scored = scores.scored if scores else {}
    for latent in latents:
        if latent in report.labelled:
            say(f"{latent:>6}  {report.labelled[latent]}{_score_text(scored.get(latent))}")
    say(
        f"{len(report.labelled)} labels ({f'{len(scored)} scored' if scored else 'unevaluated'}), "
        f"{report.from_before} of them from an earlier run.",
        file=sys.stderr,
    )
    for latent, why in (scores.failures if scores else {}).items():
        say(f"latent {latent} is not scored: {why}", file=sys.stderr)
    for latent, why in report.failures.items():
        say(f"latent {latent}: {why}", file=sys.stderr)
    if report.failures:
        say(f"{len(report.failures)} latents got no label; the same command tries again", file=sys.stderr)
    return 1 if report.failures else 0


def _score_text(score: "LabelScore | None") -> str:
    if score is None:
        return ""
    fuzzing = "" if score.fuzzing is None else f", fuzzing {score.fuzzing:.2f}"
    return f"  (detection {score.detection:.2f}{fuzzing}; chance 0.50)"
