"""What a run leaves on disk, and how to get it back.

    RUN/run.json             what was asked for
    RUN/metrics.jsonl        what every step measured
    RUN/checkpoints/         what training needs to go on
    RUN/autoencoders/NAME/   what it learned; each is a folder as save_pretrained makes it
    RUN/evaluation.json      how good that is, if quadric evaluate was asked
    RUN/geometry/NAME/       the shape of its latents, computed once from the weights
    RUN/evidence/NAME/       what data says about its latents
    RUN/site/                both, to look at

Nothing in it names a place outside, so a run folder can be moved, and an autoencoder's folder taken out of it.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from quadric.autoencoders import Autoencoder, load_pretrained
from quadric.autoencoders.io import CONFIG_NAME
from quadric.runs.hub import download

AUTOENCODERS = "autoencoders"
EVIDENCE = "evidence"
GEOMETRY = "geometry"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load(
    folder_or_hub_id: str | os.PathLike[str], *, autoencoder: str | None = None, revision: str | None = None
) -> Autoencoder:
    """The autoencoder in a local folder or, if there is none of that name, in a repository of the hub.

    Of a run that trained several, `autoencoder` names the one to load.
    """
    return load_pretrained(autoencoder_folder(local_folder(folder_or_hub_id, revision=revision), autoencoder))


class Loaded(NamedTuple):
    """An autoencoder, and the run and the name that it was found under."""

    run: str
    name: str
    autoencoder: Autoencoder


def load_all(runs: Sequence[str]) -> list[Loaded]:
    """Every autoencoder of some runs, folders made by save_pretrained, or hub ids."""
    if not runs:
        raise ValueError("no run was given; name at least one, e.g. runs/first")
    found = []
    for run in runs:
        folder = local_folder(run)
        for name in autoencoder_folders(folder) or [None]:
            path = autoencoder_folder(folder, name)
            found.append(Loaded(run, path.name if name is None else name, load_pretrained(path)))
    return found


def local_folder(folder_or_hub_id: str | os.PathLike[str], *, revision: str | None = None) -> Path:
    """The folder itself or, if there is none of that name, what the hub has under it, downloaded."""
    if Path(folder_or_hub_id).is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for the hub, but '{folder_or_hub_id}' is a local folder")
        return Path(folder_or_hub_id)
    name = os.fspath(folder_or_hub_id)
    if not _HUB_ID.fullmatch(name):
        raise FileNotFoundError(
            f"no folder '{name}'; give a run, a folder made by save_pretrained, or a hub id 'owner/name'"
        )
    return download(name, revision)


def autoencoder_folders(folder: Path) -> dict[str, Path]:
    """The trained autoencoders of a run by name; a folder made by save_pretrained counts as a run of one."""
    if (folder / CONFIG_NAME).is_file() or not (folder / AUTOENCODERS).is_dir():
        return {folder.resolve().name: folder}
    return {path.name: path for path in sorted((folder / AUTOENCODERS).iterdir()) if (path / CONFIG_NAME).is_file()}


def autoencoder_folder(folder: Path, name: str | None = None) -> Path:
    """The folder of one autoencoder of a run; its name may be left out where there is only one."""
    folders = autoencoder_folders(folder)
    if not folders:
        raise FileNotFoundError(
            f"'{folder}' holds no trained autoencoder yet; go on with quadric train --resume {folder}"
        )
    if name is None and len(folders) == 1:
        return next(iter(folders.values()))
    if name not in folders:
        choices = ", ".join(folders)
        raise ValueError(
            f"autoencoder={name!r} does not name one of the {len(folders)} of '{folder}'; choose from: {choices}"
        )
    return folders[name]


def evidence_folder(folder: Path, name: str) -> Path:
    """Where the evidence about one autoencoder of a run is kept."""
    return folder / EVIDENCE / name


def geometry_folder(folder: Path, name: str) -> Path:
    """Where the geometry of one autoencoder of a run is kept."""
    return folder / GEOMETRY / name
