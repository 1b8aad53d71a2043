"""What a run leaves on disk, and how to get it back."""

import os
import re
from pathlib import Path

from quadric.autoencoders import Autoencoder, load_pretrained
from quadric.hub import download

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load(folder_or_hub_id: str | os.PathLike[str], *, revision: str | None = None) -> Autoencoder:
    """The autoencoder in a local folder or, if there is none of that name, in a repository of the hub."""
    if Path(folder_or_hub_id).is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for the hub, but '{folder_or_hub_id}' is a local folder")
        return load_pretrained(folder_or_hub_id)
    name = os.fspath(folder_or_hub_id)
    if not _HUB_ID.fullmatch(name):
        raise FileNotFoundError(f"no folder '{name}'; give a folder made by save_pretrained, or a hub id 'owner/name'")
    return load_pretrained(download(name, revision))
