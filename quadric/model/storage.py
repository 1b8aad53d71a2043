"""A dictionary on disk: one safetensors file and a strict config.json that names and hashes it.

The name of the weights file contains its hash. Saving over an older dictionary therefore leaves the old weights alone
until the new config is in place: whenever the process is killed, the folder holds one complete dictionary.
"""

import hashlib
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialize_tensors
from torch import Tensor

from quadric._io.files import is_plain_name, name_disk_errors, read_versioned_json, write_atomically, write_json
from quadric._io.records import check_keys, record_from_json
from quadric.model.provenance import Provenance
from quadric.model.settings import Settings, settings_class
from quadric.version import __version__

if TYPE_CHECKING:
    from quadric.model.dictionary import Dictionary

FORMAT = "quadric-autoencoder"
FORMAT_VERSION = 4
OLDEST_VERSION = 3
"""Of 0.2; `_as_version_4` reads it."""
CONFIG_NAME = "config.json"
KEYS = {"format", "format_version", "package_version", "kind", "settings", "d_model", "seed", "provenance", "weights"}
UNSET_BEFORE_TRAINING = ("threshold", "lens_centre", "lens_constant", "lens_covariance")
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
class StoredDictionary:
    """Contents of a folder: complete and checked against the hashes."""

    described: "Described"
    provenance: Provenance
    tensors: dict[str, Tensor]


def write_dictionary(folder: str | os.PathLike[str], dictionary: "Dictionary") -> None:
    """Save into the folder; replaces a dictionary that is there and refuses to replace anything else."""
    folder = Path(folder)
    config_path = folder / CONFIG_NAME
    if config_path.exists():
        _read_config(config_path)  # raises if it is something else
    blob = serialize_tensors({name: each.detach().cpu().contiguous() for name, each in dictionary.tensors().items()})
    digest = hashlib.sha256(blob).hexdigest()
    weights = WeightsFile(file=f"weights-{digest[:12]}.safetensors", bytes=len(blob), sha256=digest)
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        **description(dictionary),
        "provenance": asdict(dictionary.provenance),
        "weights": asdict(weights),
    }
    with name_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / weights.file, blob)
        write_json(config_path, config)
        for path in folder.iterdir():
            if WEIGHTS_NAME.fullmatch(path.name) and path.name != weights.file:
                path.unlink(missing_ok=True)


def read_folder(folder: str | os.PathLike[str]) -> StoredDictionary:
    """Read what `write_dictionary` saved; raises ValueError or FileNotFoundError for anything else."""
    folder = Path(folder)
    config = _read_config(folder / CONFIG_NAME)
    weights = record_from_json(WeightsFile, config["weights"], f"weights in {CONFIG_NAME}")
    return StoredDictionary(
        described=described(config, CONFIG_NAME),
        provenance=record_from_json(Provenance, config["provenance"], f"provenance in {CONFIG_NAME}"),
        tensors=_read_weights(folder, weights),
    )


class Described(NamedTuple):
    """A dictionary but for its tensors."""

    settings: Settings
    d_model: int
    seed: int

    def with_tensors(self, tensors: dict[str, Tensor]) -> "Dictionary":
        """The dictionary."""
        return self.settings.restore(self.d_model, tensors, seed=self.seed)


def description(dictionary: "Dictionary") -> dict[str, Any]:
    """What, together with its tensors, rebuilds a dictionary: for files of ours and of other libraries."""
    return {
        "kind": dictionary.kind,
        "settings": asdict(dictionary.settings),
        "d_model": dictionary.d_model,
        "seed": dictionary.seed,
    }


def described(values: object, where: str) -> Described:
    """What `description` stored."""
    if not isinstance(values, dict) or not {"kind", "settings", "d_model", "seed"} <= values.keys():
        raise ValueError(f"{where} does not describe a dictionary by kind, settings, d_model and seed; restore it")
    for name in ("d_model", "seed"):
        if not isinstance(values[name], int) or isinstance(values[name], bool):
            raise ValueError(f"{name}={values[name]!r} in {where} is not a whole number; was the file edited?")
    settings = record_from_json(settings_class(values["kind"], where), values["settings"], f"settings in {where}")
    return Described(settings, values["d_model"], values["seed"])


def load_pretrained(folder: str | os.PathLike[str]) -> "Dictionary":
    """Load a dictionary saved by `save_pretrained`.

    Args:
        folder: the folder with config.json and the weights.

    Returns:
        The dictionary, in eval mode.

    Example:
        >>> from quadric.model import load_pretrained
        >>> ae.save_pretrained("my-dictionary")
        >>> load_pretrained("my-dictionary").n_latents
        24
    """
    stored = read_folder(folder)
    loaded = stored.described.with_tensors(stored.tensors)
    loaded.provenance = stored.provenance
    return loaded.eval()


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no {CONFIG_NAME} in '{path.parent}'; expected a folder made by save_pretrained")
    config = read_versioned_json(path, FORMAT, FORMAT_VERSION, "a Quadric dictionary", "restore the file or save again")
    version = config["format_version"]
    if version < OLDEST_VERSION:
        raise ValueError(f"{path} was written before Quadric 0.2 (format {version}); save it again with Quadric 0.2")
    if version == OLDEST_VERSION:
        check_keys(config, KEYS - {"settings", "d_model", "seed"} | {"architecture"}, str(path))
        return _as_version_4(config, str(path))
    check_keys(config, KEYS, str(path))
    return config


def _as_version_4(config: dict[str, Any], where: str) -> dict[str, Any]:
    """The config of a dictionary that Quadric 0.2 saved, as it is saved now."""
    old = config["architecture"]
    if not isinstance(old, dict) or not isinstance(config["kind"], str):
        raise ValueError(f"{where}: kind must be text and architecture an object; save it again")
    old = dict(old)
    try:
        kind = old.pop("prior") if config["kind"] == "bilinear" else config["kind"]
        d_model, seed = old.pop("d_model"), old.pop("seed")
        if config["kind"] == "bilinear":
            density, hidden = old.pop("mixing_density"), old.pop("n_hidden")
            old["same_factors"] = old.pop("tied")
            old |= {} if kind == "atomic" else {"n_hidden": hidden}
            if kind == "composite":
                old |= {"atoms_per_latent": density * hidden, "initial_density": density}
        elif old["n_active"] is None:
            old.pop("n_active")
    except (KeyError, TypeError) as problem:
        raise ValueError(f"{where}: the architecture is damaged ({problem!r}); save it again") from None
    rest = {name: value for name, value in config.items() if name != "architecture"}
    return rest | {"kind": kind, "settings": old, "d_model": d_model, "seed": seed}


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
        raise ValueError(f"{path} is not a safetensors file ({problem}); save the dictionary again") from None
    for name, tensor in tensors.items():
        if name not in UNSET_BEFORE_TRAINING and tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"'{name}' in {path} holds values that are not finite; train the dictionary again")
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


def weights_sha256(autoencoder: "Dictionary") -> str:
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


def check_weights(sha256: str, autoencoder: "Dictionary", what: str, remedy: str) -> None:
    """Raise unless a result whose weights have this hash belongs to the dictionary; what shows a result calls this."""
    if sha256 != weights_sha256(autoencoder):
        raise ValueError(f"{what} is about other weights ({sha256[:12]}) than the dictionary has; {remedy}")
