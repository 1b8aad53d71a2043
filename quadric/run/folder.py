"""The files of a run, and how to load dictionaries and their geometry from it.

    RUN/run.json             config of the run
    RUN/metrics.jsonl        metrics of every step
    RUN/checkpoints/         state from which training resumes
    RUN/autoencoders/NAME/   trained autoencoders, each a folder written by save_pretrained
    RUN/evaluation.json      results of quadric evaluate, if it was run
    RUN/geometry/NAME/       shape of the latents, computed once from the weights
    RUN/evidence/NAME/       evidence about the latents, from data
    RUN/ablation/NAME.json   results of quadric ablate, if it was run
    RUN/site/                site that shows geometry and evidence

The files do not depend on the location of the folder: a run can be moved, and an autoencoder copied out of it.
"""

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from quadric._io.files import NotWritableError, remove_leftovers
from quadric._io.locks import BusyError, only_writer, writer_of
from quadric._io.progress import Progress, no_progress
from quadric.interop.reading import check_complete, dictionary_folders, is_dictionary, read_dictionary
from quadric.model import Dictionary
from quadric.model.storage import CONFIG_NAME
from quadric.run.hub import download

if TYPE_CHECKING:
    from quadric.geometry import DictionaryGeometry
    from quadric.geometry.centring import CentreLike

AUTOENCODERS = "autoencoders"
RUN_CONFIG_NAME = "run.json"
EVIDENCE = "evidence"
GEOMETRY = "geometry"
ABLATION = "ablation"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load(
    folder_or_hub_id: str | os.PathLike[str], *, name: str | None = None, revision: str | None = None
) -> Dictionary:
    """Load a dictionary from a run, a folder written by save_pretrained, a folder of another library, or the hub.

    Folders of SAELens and sparsify and the paper's checkpoints are read as dictionaries that give the latents and
    reconstructions of the library that wrote them.

    Args:
        folder_or_hub_id: A local folder or, if there is none with this name, a hub repository `owner/name`.
        name: Dictionary to load from a run that trained several, or from a folder of folders; if it is missing, the
            error lists the names.
        revision: Commit, branch or tag of a hub repository.

    Returns:
        The dictionary, on the CPU. One of a kind of your own loads once the module that registers the kind is imported.

    Example:
        >>> ae = quadric.load("runs/demo")
        >>> ae.n_latents, ae.provenance.hook_point
        (24, 'resid_pre.2')
        >>> topk = quadric.load("runs/sweep/runs/000", name="resid_pre.2-topk-k24-n_active4-seed0")
        >>> topk
        TopKAutoencoder(d_model=32, n_latents=24, n_active=4)
    """
    names = () if name is None else (name,)
    return read_dictionary(autoencoder_folder(local_folder(folder_or_hub_id, revision=revision, names=names), name))


class Loaded(NamedTuple):
    """An autoencoder with its name and the run that holds it."""

    run: str
    name: str
    autoencoder: Dictionary


def load_all(runs: Sequence[str], names: Sequence[str] = ()) -> list[Loaded]:
    """Load the named autoencoders, or all, from runs, folders written by save_pretrained, or hub ids."""
    if not runs:
        raise ValueError("no run was given; give at least one, e.g. runs/first")
    found = []
    for run in runs:
        folder = local_folder(run, names=names)
        for name in chosen_names(folder, names):
            found.append(Loaded(run, name, read_dictionary(autoencoder_folder(folder, name))))
    return found


def chosen_names(folder: Path, names: Sequence[str] = ()) -> list[str]:
    """The given names, checked against the run, or the names of all its autoencoders; an empty run is an error."""
    for name in names:
        autoencoder_folder(folder, name)
    every = autoencoder_folders(folder)
    if not every:
        autoencoder_folder(folder)  # raises an error that says what is missing
    return list(names or every)


def local_folder(
    folder_or_hub_id: str | os.PathLike[str], *, revision: str | None = None, names: Sequence[str] = ()
) -> Path:
    """The local folder or, if there is none with this name, a download of the hub repository.

    Of a hub repository that is a folder of folders, only those named are downloaded.
    """
    if Path(folder_or_hub_id).is_dir():
        if revision is not None:
            raise ValueError(
                f"revision={revision!r} is for the hub, but '{folder_or_hub_id}' is a local folder; leave it out"
            )
        return Path(folder_or_hub_id)
    name = os.fspath(folder_or_hub_id)
    if not _HUB_ID.fullmatch(name):
        raise FileNotFoundError(
            f"no folder '{name}'; give a run, a folder made by save_pretrained, or a hub id 'owner/name'"
        )
    return download(name, revision, names)


def autoencoder_folders(folder: Path) -> dict[str, Path]:
    """The trained autoencoders of a run by name; the folder of one dictionary counts as a run with one."""
    if is_dictionary(folder):
        return {folder.resolve().name: folder}
    trained = sorted((folder / AUTOENCODERS).iterdir()) if (folder / AUTOENCODERS).is_dir() else []
    found = {path.name: path for path in trained if (path / CONFIG_NAME).is_file()}
    return found or dictionary_folders(folder)


def autoencoder_folder(folder: Path, name: str | None = None) -> Path:
    """The folder of one autoencoder of a run; `name` is optional if there is only one."""
    folders = autoencoder_folders(folder)
    if not folders and (folder / RUN_CONFIG_NAME).is_file():
        writer = writer_of(folder)
        remedy = f"finish it with quadric train --resume {folder}" if writer is None else f"wait for {writer}"
        raise FileNotFoundError(f"'{folder}' holds no trained autoencoder yet; {remedy}")
    if not folders:
        check_complete(folder)
        raise FileNotFoundError(
            f"no {CONFIG_NAME} in '{folder}'; expected a run, a folder made by save_pretrained, or one of SAELens or "
            "sparsify"
        )
    if name is None and len(folders) == 1:
        return next(iter(folders.values()))
    if name not in folders:
        wrong = "" if name is None else f", none of them named {name!r}"
        count = "1 autoencoder" if len(folders) == 1 else f"{len(folders)} autoencoders"
        raise ValueError(
            f"'{folder}' holds {count}: {', '.join(folders)}{wrong}; choose one with --name (name=... in Python)"
        )
    return folders[name]


def evidence_folder(folder: Path, name: str) -> Path:
    """Where the evidence about one autoencoder of a run is kept."""
    return folder / EVIDENCE / name


def geometry_folder(folder: Path, name: str) -> Path:
    """Where the geometry of one autoencoder of a run is kept."""
    return folder / GEOMETRY / name


def ablation_file(folder: Path, name: str) -> Path:
    """Where the latest ablation study of one autoencoder of a run is kept."""
    return folder / ABLATION / f"{name}.json"


def geometry_of_run(
    run: Path,
    name: str,
    autoencoder: Dictionary,
    on_progress: Progress = no_progress,
    *,
    moments: "CentreLike | None" = None,
) -> "DictionaryGeometry":
    """The geometry of one autoencoder of a run, from the run folder or computed and kept there.

    It is that of exactly these weights about exactly this centre: `moments` are mean and covariance of the unit tokens,
    about which a raw dictionary is read, `evidence.calibration.tokens_centre()`. An affine lens has its own.
    """
    # Imported here: training loads runs, and needs no geometry.
    from quadric.geometry import dictionary_geometry, kept_geometry
    from quadric.geometry.dictionary_geometry import stored_geometry

    folder = geometry_folder(run, name)
    if (known := stored_geometry(autoencoder, folder, moments=moments)) is not None:
        return known
    with ExitStack() as lock:
        try:
            lock.enter_context(only_writer(folder, "quadric site (geometry)"))
        except (BusyError, NotWritableError):  # another process stores it, or nobody can
            return dictionary_geometry(autoencoder, on_progress, moments=moments)
        remove_leftovers(folder, r"tensors-[0-9a-f]+\.safetensors|geometry\.json|quadric-files\.json")
        return kept_geometry(autoencoder, folder, on_progress, moments=moments)


def known_geometry(run: str | Path, autoencoder: Dictionary, name: str | None = None) -> "DictionaryGeometry | None":
    """The geometry that a run folder holds for an autoencoder, about whichever centre; None if it holds none.

    Anything else than a run folder, such as a hub id, holds none.
    """
    from quadric.geometry.dictionary_geometry import stored_geometry

    folder = Path(run)
    if not folder.is_dir():
        return None
    own = autoencoder_folder(folder, name).resolve().name
    return stored_geometry(autoencoder, geometry_folder(folder, own), any_centre=True)
