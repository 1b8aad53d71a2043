"""Labels of latents from a run's evidence, read from its JSON alone.

The package `quadric.evidence` imports language-model code, which a report on weights must not need.
"""

from pathlib import Path

from quadric._io.files import read_versioned_json
from quadric.model import Autoencoder
from quadric.model.storage import weights_sha256

NAME, FORMAT, FORMAT_VERSION = "evidence.json", "quadric-evidence", 2


def stored_labels(evidence: Path, autoencoder: Autoencoder) -> list[str] | None:
    """The label of every latent; None if there is no evidence, or only evidence about other weights.

    Args:
        evidence: Folder of the evidence about the autoencoder.
        autoencoder: The autoencoder that the labels must belong to.
    """
    path = evidence / NAME
    if not path.is_file():
        return None
    record = read_versioned_json(
        path, FORMAT, FORMAT_VERSION, "Quadric evidence", "delete the folder to collect it again"
    )
    if record["weights_sha256"] != weights_sha256(autoencoder):
        return None
    labels = record["labels"]
    written = (labels["from_model"] or {}).get("texts", {})
    return [written.get(str(latent)) or text for latent, text in enumerate(labels["texts"])]
