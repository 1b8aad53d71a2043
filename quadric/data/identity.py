"""Whether a language model is the one that a dictionary was trained on."""

from pathlib import Path
from typing import Any

from quadric.data.model_errors import ModelError
from quadric.data.models import LanguageModel, folder_fingerprint, sampled_fingerprint
from quadric.model import Provenance

SAMPLED = "sampled-sha256:"
FILES = "sha256:"


class WrongModelError(ModelError):
    """A dictionary and a language model that do not belong together."""


def check_same_model(model: LanguageModel | Any, provenance: Provenance) -> None:
    """Raise unless the model has the revision that the provenance records, or none is recorded.

    Args:
        model: A `LanguageModel`, or a `transformers` model in memory.
        provenance: Of the dictionary.
    """
    wanted = provenance.model_revision
    if wanted is None:
        return
    found = revision_like(model, wanted)
    if found == wanted:
        return
    known = f"it has revision {found[:27]}" if found else "its revision is unknown"
    raise WrongModelError(
        f"the dictionary was trained on {provenance.model} (revision {wanted[:27]}), and this model may be another: "
        f"{known}; load the model of the dictionary, or give check_model=False if you are sure"
    )


def revision_like(model: LanguageModel | Any, wanted: str) -> str | None:
    """The model's revision, of the kind of the wanted one if it has that: sampled values, files, or a commit."""
    causal = model.causal if isinstance(model, LanguageModel) else model
    if wanted.startswith(SAMPLED):
        return sampled_fingerprint(causal)
    own = model.revision if isinstance(model, LanguageModel) else None
    if own is not None and not own.startswith(SAMPLED):
        return own
    # A model that was given in memory: `from_pretrained` notes where it came from.
    folder = Path(str(getattr(causal.config, "name_or_path", "") or ""))
    if wanted.startswith(FILES) and folder.name and (folder / "config.json").is_file():
        return folder_fingerprint(folder)
    commit: str | None = getattr(causal.config, "_commit_hash", None)
    return commit or own
