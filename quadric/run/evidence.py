"""Evidence about the autoencoders of runs: stored evidence is used, missing or outdated evidence is collected."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quadric._io.progress import Progress, no_progress
from quadric.data import ActivationCache, ActivationStream
from quadric.evidence import (
    Evidence,
    EvidenceSettings,
    Job,
    collect_together,
    open_cached,
    open_live,
    text_behind,
)
from quadric.evidence.storage import has_evidence
from quadric.model import Dictionary
from quadric.model.storage import weights_sha256
from quadric.run.folder import evidence_folder

BATCH_TOKENS = 4096
DEFAULT_TOKENS = 200_000
DEFAULT_POINTS = 2000

OnNote = Callable[[str], None]
"""Called with a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class WantedEvidence:
    """The requested evidence. None accepts whatever is stored, or uses the default if nothing is stored."""

    tokens: int | None = None
    points: int | None = None
    cache: Path | None = None
    model: str | None = None
    corpus: str | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("tokens", "points"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise ValueError(f"{name}={value} is too small; give at least 2")

    def open(self, autoencoder: Dictionary) -> ActivationStream:
        """The activations, from the cache or from the language model."""
        own = autoencoder.provenance
        if self.cache is not None:
            return open_cached(own, self.cache, BATCH_TOKENS)
        return open_live(own, model=self.model, corpus=self.corpus, batch_tokens=BATCH_TOKENS, device=self.device)


def evidence_for(
    jobs: list[Job],
    wanted: WantedEvidence,
    *,
    on_progress: Progress = no_progress,
    on_note: OnNote = lambda note: None,
) -> list[Evidence]:
    """The evidence of each autoencoder; autoencoders of the same activations share one pass over the data."""
    missing = [job for job in jobs if not _is_current(job, wanted, on_note)]
    while missing:
        together = [job for job in missing if job.autoencoder.provenance == missing[0].autoencoder.provenance]
        _collect(together, wanted, on_progress, on_note)
        missing = [job for job in missing if job not in together]
    return [Evidence.load(job.folder) for job in jobs]


def _is_current(job: Job, wanted: WantedEvidence, on_note: OnNote) -> bool:
    if not has_evidence(job.folder):
        return False
    why = _outdated(Evidence.load(job.folder), weights_sha256(job.autoencoder), wanted)
    if why is not None:
        on_note(f"{job.folder} {why}; collecting it again")
    return why is None


def _outdated(evidence: Evidence, weights: str, wanted: WantedEvidence) -> str | None:
    """Why stored evidence does not match the request; None if it does."""
    if evidence.weights_sha256 != weights:
        return "is about other weights"
    if wanted.points is not None and evidence.settings.n_points != wanted.points:
        return f"has {evidence.settings.n_points} points per latent"
    if wanted.tokens is not None and evidence.n_tokens != wanted.tokens and not evidence.notes:
        return f"was collected from {evidence.n_tokens:,} tokens"
    if _of_other_text(evidence, wanted):
        return f"was collected from other activations of '{evidence.provenance.corpus}'"
    return None


def _of_other_text(evidence: Evidence, wanted: WantedEvidence) -> bool:
    own = evidence.provenance
    if wanted.cache is not None:
        return ActivationCache(wanted.cache).provenance.for_hook_point(own.hook_point or "") != own
    return wanted.corpus is not None and own.corpus not in (wanted.corpus, Path(wanted.corpus).name)


def _collect(jobs: list[Job], wanted: WantedEvidence, on_progress: Progress, on_note: OnNote) -> None:
    settings = EvidenceSettings(n_points=wanted.points or DEFAULT_POINTS)
    tokens = wanted.tokens or DEFAULT_TOKENS
    names = ", ".join(job.folder.name for job in jobs)
    on_note(f"{names}: scoring up to {tokens:,} tokens; the remaining time is shown from the second batch on")
    stream = wanted.open(jobs[0].autoencoder)
    text = text_behind(stream, wanted.model)
    try:
        collect_together(jobs, stream, n_tokens=tokens, settings=settings, text=text, on_progress=on_progress)
    except KeyboardInterrupt:
        on_note("progress is saved every minute; run the same command again to continue")
        raise


def evidence_of_run(run: Path, name: str) -> Evidence | None:
    """The evidence that a run holds about one of its autoencoders; None if there is none yet."""
    kept = evidence_folder(run, name)
    return Evidence.load(kept) if has_evidence(kept) else None
