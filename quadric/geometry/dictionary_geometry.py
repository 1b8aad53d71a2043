"""The geometry of a whole dictionary, computed once and kept on disk: spectra, axes, shapes, neighbours and copies.

Statistics, the axes of evidence, the pages of a site and reports are all made from it, without decomposing a latent
again. Its folder, RUN/geometry/NAME in a run, holds `tensors-<hash>.safetensors` and a `geometry.json` that names the
file with its size and hash, written last. If the stored geometry is missing, damaged, in another format, of other
weights or about another centre, it is computed again.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from quadric._io.array_file import load_stored, replaced_arrays
from quadric._io.files import NotWritableError, name_disk_errors, read_versioned_json, write_json
from quadric._io.progress import Progress, no_progress, part_of
from quadric._io.records import record_from_json
from quadric.geometry.centring import Centre, CentreLike, given_sha256
from quadric.geometry.decomposition import KEPT_AXES, Decomposition, decompose
from quadric.geometry.neighbours import DEFAULT_COUNT, Neighbours, Redundancy, closest, redundancy
from quadric.geometry.shapes import Readings
from quadric.geometry.statistics import LatentStatistics, statistics_of
from quadric.model import Dictionary
from quadric.model.storage import weights_sha256

FORMAT = "quadric-geometry"
FORMAT_VERSION = 3
"""Increase it whenever the same weights would give other tensors, so that stored ones are computed again."""
NAME = "geometry.json"
_TENSORS = (
    "eigenvalues",
    "support",
    "axes",
    "axis_quadratic",
    "axis_linear",
    "axis_kind",
    "constant",
    "energy",
)
_PARTS: dict[str, Any] = {"readings": Readings, "neighbours": Neighbours, "redundancy": Redundancy}
IS_LINEAR = "is_linear"
"""Name of a tensor that is there only if latents are directions."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DictionaryGeometry(Decomposition):
    """Eigenvalues, axes, shape, neighbours and copies of every latent of one dictionary."""

    neighbours: Neighbours
    """The 20 closest latents of each latent, as `quadric.geometry.neighbours` gives them by default."""
    redundancy: Redundancy
    """Which latents are empty, and which are copies of others."""

    def statistics(self) -> LatentStatistics:
        """The table of all latents."""
        return statistics_of(self, self.redundancy.copy_of)


def dictionary_geometry(
    autoencoder: Dictionary, on_progress: Progress = no_progress, *, moments: CentreLike | None = None
) -> DictionaryGeometry:
    """Compute the geometry of every latent from weights alone, decomposing each latent once.

    Args:
        autoencoder: Any dictionary.
        on_progress: Called as latents are decomposed, and again as their neighbours are found.
        moments: Mean and covariance of the unit tokens that a raw dictionary reads, as `quadric.TokenMoments` or
            `quadric.geometry.Centre`; a raw dictionary is read about the origin without. An affine lens has its own.

    Returns:
        Eigenvalues, axes, shapes, support, neighbours and copies of all latents.

    Example:
        >>> known = geometry.dictionary_geometry(ae)
        >>> table = geometry.statistics(ae, geometry=known)  # decomposes no latent again
        >>> known.neighbours.latents[0, :3].shape
        torch.Size([3])
    """
    k = autoencoder.n_latents
    found = decompose(autoencoder, on_progress=part_of(on_progress, "geometry", 0, 2 * k), centre=moments)
    near = closest(found, on_progress=part_of(on_progress, "geometry", k, 2 * k))
    return DictionaryGeometry(**vars(found), neighbours=near, redundancy=redundancy(autoencoder))


@dataclass(frozen=True, kw_only=True)
class GeometryFile:
    """geometry.json."""

    format: str
    format_version: int
    weights_sha256: str
    centre_sha256: str
    tolerance: float
    tensors: dict[str, Any]


def kept_geometry(
    autoencoder: Dictionary, folder: Path, on_progress: Progress = no_progress, *, moments: CentreLike | None = None
) -> DictionaryGeometry:
    """The geometry of a dictionary, from the folder if it holds it, else computed and saved there.

    Args:
        autoencoder: Any dictionary.
        folder: Where its geometry is kept, e.g. RUN/geometry/NAME; it need not exist.
        on_progress: Called as by `dictionary_geometry`, and not at all if the stored geometry is used.
        moments: Mean and covariance of the unit tokens that a raw dictionary reads.

    Returns:
        The geometry of exactly these weights about exactly this centre.

    Example:
        >>> from pathlib import Path
        >>> known = geometry.kept_geometry(ae, Path("geometry"))
        >>> Path("geometry/geometry.json").is_file()
        True
    """
    if (known := stored_geometry(autoencoder, folder, moments=moments)) is not None:
        return known
    geometry = dictionary_geometry(autoencoder, on_progress, moments=moments)
    with suppress(NotWritableError):  # a read-only run folder: return the geometry without storing it
        save_geometry(geometry, folder)
    return geometry


def stored_geometry(
    autoencoder: Dictionary, folder: Path, *, moments: CentreLike | None = None, any_centre: bool = False
) -> DictionaryGeometry | None:
    """The geometry in the folder, or None unless it is complete and that of exactly these weights and this centre.

    `any_centre` accepts whichever centre it was computed about, for readers that have no data to know one.
    """
    try:
        geometry = load_geometry(folder)
    except (OSError, ValueError, KeyError):
        return None
    fits = geometry.weights_sha256 == weights_sha256(autoencoder) and _has_expected_shapes(geometry, autoencoder)
    fits = fits and (any_centre or geometry.centre_sha256 == given_sha256(autoencoder, moments))
    return geometry if fits else None


def save_geometry(geometry: DictionaryGeometry, folder: Path) -> None:
    """Write into the folder; if it is interrupted, the folder holds the old geometry or the new one, complete."""
    with name_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: tensor.numpy() for name, tensor in _tensors(geometry).items()}
        with replaced_arrays(folder, NAME, FORMAT) as store:
            record = GeometryFile(
                format=FORMAT,
                format_version=FORMAT_VERSION,
                weights_sha256=geometry.weights_sha256,
                centre_sha256=geometry.centre_sha256,
                tolerance=geometry.tolerance,
                tensors=store("tensors", arrays),
            )
            write_json(folder / NAME, asdict(record))


def load_geometry(folder: Path) -> DictionaryGeometry:
    """Read what `save_geometry` wrote; anything else is an error."""
    path = folder / NAME
    remedy = "delete the folder, and it is computed again"
    values = read_versioned_json(path, FORMAT, FORMAT_VERSION, "the geometry of a dictionary", remedy, since="0.2")
    record = record_from_json(GeometryFile, values, str(path))
    arrays = load_stored(folder, record.tensors, path, remedy)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    parts = {name: kind(*(tensors[f"{name}.{field}"] for field in kind._fields)) for name, kind in _PARTS.items()}
    mean, covariance = tensors.get("centre.mean"), tensors.get("centre.covariance")
    return DictionaryGeometry(
        weights_sha256=record.weights_sha256,
        centre_sha256=record.centre_sha256,
        centre=None if mean is None else Centre(mean, covariance),
        tolerance=record.tolerance,
        is_linear=IS_LINEAR in tensors,
        **({name: tensors[name] for name in _TENSORS} | parts),
    )


def _tensors(geometry: DictionaryGeometry) -> dict[str, torch.Tensor]:
    tensors = {name: getattr(geometry, name) for name in _TENSORS}
    for name, kind in _PARTS.items():
        tensors |= {f"{name}.{field}": getattr(getattr(geometry, name), field) for field in kind._fields}
    if geometry.is_linear:
        tensors[IS_LINEAR] = torch.ones(1)
    known = {} if geometry.centre is None else geometry.centre._asdict()
    return tensors | {f"centre.{name}": part.detach().cpu() for name, part in known.items() if part is not None}


def _has_expected_shapes(geometry: DictionaryGeometry, autoencoder: Dictionary) -> bool:
    """Whether as many axes and neighbours are stored as this version keeps."""
    k, d = autoencoder.n_latents, autoencoder.d_model
    count = min(DEFAULT_COUNT, k - 1)
    expected = [(k, d, KEPT_AXES), (k,), (k, count), (k, count), (k,)]
    near = geometry.neighbours
    tensors = (geometry.axes, geometry.support, near.latents, near.overlaps, near.ranks)
    return [tuple(tensor.shape) for tensor in tensors] == expected and len(geometry.eigenvalues) == k
