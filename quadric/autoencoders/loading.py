"""From a folder back to the autoencoder that was saved in it."""

import os

from quadric._records import record_from_json
from quadric.autoencoders.autoencoder import Autoencoder
from quadric.autoencoders.bilinear import BilinearArchitecture, BilinearAutoencoder
from quadric.autoencoders.io import CONFIG_NAME, read_folder
from quadric.autoencoders.topk import BatchTopKAutoencoder, LinearArchitecture, TopKAutoencoder

_KINDS: dict[str, tuple[type[Autoencoder], type]] = {
    BilinearAutoencoder.kind: (BilinearAutoencoder, BilinearArchitecture),
    TopKAutoencoder.kind: (TopKAutoencoder, LinearArchitecture),
    BatchTopKAutoencoder.kind: (BatchTopKAutoencoder, LinearArchitecture),
}


def load_pretrained(folder: str | os.PathLike[str]) -> Autoencoder:
    """The autoencoder in the folder, in eval mode."""
    stored = read_folder(folder)
    if stored.kind not in _KINDS:
        raise ValueError(f"'{folder}' holds a {stored.kind!r} autoencoder; this Quadric knows {', '.join(_KINDS)}")
    autoencoder, architecture = _KINDS[stored.kind]
    loaded = autoencoder.from_tensors(
        record_from_json(architecture, stored.architecture, f"architecture in {CONFIG_NAME}"), stored.tensors
    )
    loaded.provenance = stored.provenance
    return loaded.eval()
