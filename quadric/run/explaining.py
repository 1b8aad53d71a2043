"""Explain texts by a dictionary of a run: its evidence, if there is any, and its language model."""

from collections.abc import Sequence
from pathlib import Path

from quadric.data.provenance import check_same_model
from quadric.evidence import Evidence
from quadric.evidence.storage import has_evidence
from quadric.explanations import Explainer, Explanation
from quadric.explanations.explaining import DEFAULT_TOP, language_model_of
from quadric.interop.reading import read_dictionary
from quadric.run.folder import autoencoder_folder, evidence_folder, local_folder


def explain_with_run(
    run: str | Path,
    texts: Sequence[str],
    *,
    name: str | None = None,
    top: int = DEFAULT_TOP,
    model: str | None = None,
    device: str = "auto",
) -> list[Explanation]:
    """Explain some texts; see `quadric.explain`.

    Args:
        run: A run folder, a folder made by save_pretrained, or a hub id.
        texts: The texts.
        name: Which autoencoder, if the run has several.
        top: Latents per token.
        model: Location of the language model, if its recorded name is not enough to find it.
        device: Device of the language model.

    Returns:
        One explanation per text.
    """
    return run_explainer(run, name=name, model=model, device=device).explain(texts, top)


def run_explainer(
    run: str | Path, *, name: str | None = None, model: str | None = None, device: str = "auto"
) -> Explainer:
    """What explains texts by one dictionary of a run; the arguments are those of `explain_with_run`."""
    folder = local_folder(run)
    own = autoencoder_folder(folder, name)
    autoencoder = read_dictionary(own)
    loaded = language_model_of(autoencoder, model, None, device)
    check_same_model(loaded, autoencoder.provenance)
    return Explainer(autoencoder, loaded, evidence_of_run(folder, own.resolve().name))


def evidence_of_run(run: Path, name: str) -> Evidence | None:
    """The evidence that a run holds about one of its autoencoders; None if there is none yet."""
    kept = evidence_folder(run, name)
    return Evidence.load(kept) if has_evidence(kept) else None
