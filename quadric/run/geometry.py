"""The geometry of a run's dictionaries, computed once and kept in RUN/geometry/NAME."""

from contextlib import ExitStack
from pathlib import Path

from quadric._io.files import NotWritableError, remove_leftovers
from quadric._io.locks import BusyError, only_writer
from quadric._io.progress import Progress, no_progress
from quadric.geometry import DictionaryGeometry, dictionary_geometry, kept_geometry
from quadric.geometry.centring import CentreLike
from quadric.geometry.dictionary_geometry import stored_geometry
from quadric.model import Dictionary
from quadric.run.folder import autoencoder_folder, geometry_folder


def geometry_of_run(
    run: Path,
    name: str,
    autoencoder: Dictionary,
    on_progress: Progress = no_progress,
    *,
    moments: CentreLike | None = None,
) -> DictionaryGeometry:
    """The geometry of one autoencoder of a run, from the run folder or computed and kept there.

    Args:
        run: The run folder.
        name: Name of the autoencoder in it.
        autoencoder: The autoencoder.
        on_progress: Called as by `dictionary_geometry`; not at all if the run folder holds the geometry.
        moments: Mean and covariance of the unit tokens, about which a raw dictionary is read; those of the run's
            evidence, `evidence.calibration.tokens_centre()`. An affine lens has its own.

    Returns:
        The geometry of exactly these weights about exactly this centre.
    """
    folder = geometry_folder(run, name)
    if (known := stored_geometry(autoencoder, folder, moments=moments)) is not None:
        return known
    with ExitStack() as lock:
        try:
            lock.enter_context(only_writer(folder, "quadric site (geometry)"))
        except (BusyError, NotWritableError):  # another process stores it, or nobody can
            return dictionary_geometry(autoencoder, on_progress, moments=moments)
        remove_leftovers(folder, r"tensors-[0-9a-f]+\.safetensors|geometry\.json")
        return kept_geometry(autoencoder, folder, on_progress, moments=moments)


def known_geometry(run: str | Path, autoencoder: Dictionary, name: str | None = None) -> DictionaryGeometry | None:
    """The geometry that a run folder holds for an autoencoder, about whichever centre; None if it holds none.

    Args:
        run: A run folder; anything else, such as a hub id, holds no geometry.
        autoencoder: The autoencoder that was loaded from it.
        name: Its name in the run; optional if it is the only one.

    Returns:
        The geometry, or None.
    """
    folder = Path(run)
    if not folder.is_dir():
        return None
    own = autoencoder_folder(folder, name).resolve().name
    return stored_geometry(autoencoder, geometry_folder(folder, own), any_centre=True)
