"""An autoencoder on disk: one safetensors file and a strict config.json that names and hashes it.

The name of the weights file contains its hash. Saving over an older autoencoder therefore leaves the old weights alone
until the new config is in place: whenever the process is killed, the folder holds one complete autoencoder.
"""

import hashlib
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialize_tensors
from torch import Tensor

from quadric._io.files import is_plain_name, name_disk_errors, read_versioned_json, write_atomically, write_json
from quadric._io.records import check_keys, record_from_json
from quadric.model.provenance import Provenance

if TYPE_CHECKING:
    from quadric.model.dictionary import Autoencoder

FORMAT = "quadric-autoencoder"
FORMAT_VERSION = 3
ADDED_IN_VERSION: dict[int, dict[str, dict[str, Any]]] = {
    2: {"bilinear": {"lens": "paper"}},
    3: {kind: {"input": "unit", "subtract_decoder_bias": True} for kind in ("topk", "batch_topk")},
}
"""Fields of an architecture that earlier files lack, by version and kind."""
CONFIG_NAME = "config.json"
UNSET_BEFORE_TRAINING = ("threshold",)
"""Tensors that are NaN until training sets them."""
WEIGHTS_NAME = re.compile(r"weights-[0-9a-f]{12}\.safetensors")
"""Files of such names are deleted when others take their place; what config.json says does not matter."""


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """Name of the weights file, with its size and hash to check that it is complete."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class StoredAutoencoder:
    """Contents of a folder: files are complete, but the architecture is not checked yet."""

    kind: str
    architecture: dict[str, Any]
    provenance: Provenance
    tensors: dict[str, Tensor]


def write_folder(folder: str | os.PathLike[str], stored: StoredAutoencoder, package_version: str) -> None:
    """Save into the folder; replaces an autoencoder that is there and refuses to replace anything else."""
    folder = Path(folder)
    config_path = folder / CONFIG_NAME
    if config_path.exists():
        _read_config(config_path)  # raises if it is something else
    blob = serialize_tensors({name: tensor.contiguous() for name, tensor in stored.tensors.items()})
    digest = hashlib.sha256(blob).hexdigest()
    weights = WeightsFile(file=f"weights-{digest[:12]}.safetensors", bytes=len(blob), sha256=digest)
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": package_version,
        "kind": stored.kind,
        "architecture": stored.architecture,
        "provenance": asdict(stored.provenance),
        "weights": asdict(weights),
    }
    with name_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / weights.file, blob)
        write_json(config_path, config)
        for path in folder.iterdir():
            if WEIGHTS_NAME.fullmatch(path.name) and path.name != weights.file:
                path.unlink(missing_ok=True)


def read_folder(folder: str | os.PathLike[str]) -> StoredAutoencoder:
    """Read what `write_folder` saved; raises ValueError or FileNotFoundError for anything else."""
    folder = Path(folder)
    config = _read_config(folder / CONFIG_NAME)
    weights = _weights_file(config)
    if not isinstance(config["kind"], str) or not isinstance(config["architecture"], dict):
        raise ValueError(f"{folder / CONFIG_NAME}: kind must be text and architecture an object; save it again")
    return StoredAutoencoder(
        kind=config["kind"],
        architecture=config["architecture"] | _added_since(config["format_version"], config["kind"]),
        provenance=record_from_json(Provenance, config["provenance"], f"provenance in {CONFIG_NAME}"),
        tensors=_read_weights(folder, weights),
    )


def _added_since(version: int, kind: str) -> dict[str, Any]:
    """What fields that a file of this version lacks have to be."""
    later = [fields.get(kind, {}) for added_in, fields in ADDED_IN_VERSION.items() if version < added_in]
    return {name: value for fields in later for name, value in fields.items()}


def load_pretrained(folder: str | os.PathLike[str]) -> "Autoencoder":
    """Load an autoencoder saved by `save_pretrained`.

    Args:
        folder: the folder with config.json and the weights.

    Returns:
        The autoencoder, in eval mode.

    Example:
        >>> from quadric.model import load_pretrained
        >>> ae.save_pretrained("my-dictionary")
        >>> load_pretrained("my-dictionary").n_latents
        24
    """
    # Imported here: these classes import this module to save themselves.
    from quadric.model.bilinear import BilinearArchitecture, BilinearAutoencoder
    from quadric.model.linear import (
        BatchTopKAutoencoder,
        JumpReLUAutoencoder,
        LinearArchitecture,
        ReLUAutoencoder,
        TopKAutoencoder,
    )

    kinds: dict[str, tuple[type[Autoencoder], type]] = {
        BilinearAutoencoder.kind: (BilinearAutoencoder, BilinearArchitecture),
        TopKAutoencoder.kind: (TopKAutoencoder, LinearArchitecture),
        BatchTopKAutoencoder.kind: (BatchTopKAutoencoder, LinearArchitecture),
        ReLUAutoencoder.kind: (ReLUAutoencoder, LinearArchitecture),
        JumpReLUAutoencoder.kind: (JumpReLUAutoencoder, LinearArchitecture),
    }
    stored = read_folder(folder)
    if stored.kind not in kinds:
        raise ValueError(f"'{folder}' holds a {stored.kind!r} autoencoder; this Quadric knows {', '.join(kinds)}")
    autoencoder, architecture = kinds[stored.kind]
    loaded = autoencoder.from_tensors(
        record_from_json(architecture, stored.architecture, f"architecture in {CONFIG_NAME}"), stored.tensors
    )
    loaded.provenance = stored.provenance
    return loaded.eval()


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no {CONFIG_NAME} in '{path.parent}'; expected a folder made by save_pretrained")
    config = read_versioned_json(
        path, FORMAT, FORMAT_VERSION, "a Quadric autoencoder", "restore the file or save again"
    )
    expected = {
        "format",
        "format_version",
        "package_version",
        "kind",
        "architecture",
        "provenance",
        "weights",
    }
    check_keys(config, expected, str(path))
    return config


def _weights_file(config: dict[str, Any]) -> WeightsFile:
    return record_from_json(WeightsFile, config["weights"], f"weights in {CONFIG_NAME}")


def _read_weights(folder: Path, weights: WeightsFile) -> dict[str, Tensor]:
    path = folder / weights.file
    if not is_plain_name(weights.file) or not path.is_file():
        raise FileNotFoundError(f"the weights '{weights.file}' named by {folder / CONFIG_NAME} are missing; fetch them")
    blob = path.read_bytes()
    if len(blob) < weights.bytes:
        raise ValueError(f"{path} is truncated: {len(blob)} of {weights.bytes} bytes; copy or download it again")
    if len(blob) != weights.bytes or hashlib.sha256(blob).hexdigest() != weights.sha256:
        raise ValueError(f"{path} was changed after it was saved: its sha256 is not the recorded one; copy it again")
    try:
        tensors = parse_tensors(blob)
    except (SafetensorError, ValueError, TypeError, KeyError) as problem:
        raise ValueError(f"{path} is not a safetensors file ({problem}); save the autoencoder again") from None
    for name, tensor in tensors.items():
        if name not in UNSET_BEFORE_TRAINING and tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"'{name}' in {path} holds values that are not finite; train the autoencoder again")
    return tensors


def check_shapes(tensors: dict[str, Tensor], expected: dict[str, tuple[int, ...]]) -> None:
    """Refuse weights that do not belong to the architecture."""
    if tensors.keys() != expected.keys():
        raise ValueError(f"the weights hold {sorted(tensors)}; the architecture needs {sorted(expected)}")
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(
                f"'{name}' has shape {tuple(tensors[name].shape)}; the architecture needs {shape}: "
                "config.json and weights belong to different autoencoders"
            )


@runtime_checkable
class HasTensors(Protocol):
    """An autoencoder, as far as hashing needs it."""

    def tensors(self) -> dict[str, Tensor]: ...


def weights_sha256(autoencoder: HasTensors) -> str:
    """Hash of an autoencoder's tensors, which identifies the weights that stored results belong to.

    Args:
        autoencoder: Any autoencoder.

    Returns:
        The hex digest of the names, shapes, types and values of its tensors.

    Example:
        >>> from quadric.model.storage import weights_sha256
        >>> weights_sha256(ae) == evidence.weights_sha256
        True
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(autoencoder.tensors().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
