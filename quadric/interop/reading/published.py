"""Checkpoints of the paper's authors: a folder with config.json and model.safetensors, named by its settings.

The weights are `left` and `right`, (atoms, d), and for the kinds that mix atoms `down`, (latents, atoms), which is C.
Tokens are read at unit norm at the input of layer `layer`. Without `down` every atom is a latent (atomic). A `down` of
which less than half differs from zero is composite, any other quadratic.

The authors' error uses the printed kernel, whose atoms l rᵀ are not symmetric, and so does the dictionary read here;
forms and latents do not depend on it.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from quadric._io.files import shown
from quadric.interop.reading.weights import check_shape, read_config, read_weights, text_or_none, whole_number
from quadric.model import Atomic, Composite, Dictionary, Provenance, Quadratic
from quadric.model.settings import Bilinear

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
SPARSE_BELOW = 0.5


def read_published(folder: Path) -> Dictionary:
    """The bilinear dictionary of a folder of the paper's authors.

    Args:
        folder: With config.json and model.safetensors.

    Returns:
        An atomic, composite or quadratic dictionary.
    """
    path = folder / CONFIG
    config = read_config(path)
    if "expansion" not in config or "d_model" not in config:
        raise ValueError(
            f"{path} describes neither a dictionary of Quadric nor one of the paper's authors (no 'expansion' and "
            "'d_model'); give the folder of a dictionary, not of a language model"
        )
    tensors = read_weights(folder / WEIGHTS, ("left", "right"), optional=("down",))
    settings = _settings(config, path, tensors, folder / WEIGHTS)
    made = settings.restore(tensors["left"].shape[1], _as_ours(settings, tensors))
    layer = config.get("layer")
    made.provenance = Provenance(
        model=text_or_none(config, "base"),
        hook_point=f"resid_pre.{layer}" if isinstance(layer, int) else None,
    )
    return made.eval()


def _settings(config: dict[str, Any], path: Path, tensors: dict[str, Tensor], weights: Path) -> Bilinear:
    d = whole_number(config, "d_model", path)
    expansion = config["expansion"]
    if not isinstance(expansion, int | float) or not expansion > 0:
        raise ValueError(f"{path}: expansion is {shown(expansion)}; expected a number over 0: download it again")
    h = int(d * expansion)
    for name in ("left", "right"):
        check_shape(tensors, name, (h, d), weights)
    down = tensors.get("down")
    if down is not None:
        check_shape(tensors, "down", (len(down), h), weights)
    if down is None:
        return Atomic(n_latents=h, lens="paper", symmetric=False)
    density = int(down.count_nonzero()) / down.numel()
    if density < SPARSE_BELOW:
        return Composite(
            n_latents=len(down), n_hidden=h, lens="paper", symmetric=False,
            atoms_per_latent=max(density, 1 / down.numel()) * h, initial_density=max(density, 1 / down.numel()),
        )  # fmt: skip
    return Quadratic(n_latents=len(down), n_hidden=h, lens="paper", symmetric=False)


def _as_ours(settings: Bilinear, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    left = tensors["left"]
    ours = {"left": left, "right": tensors["right"], "offset": left.new_zeros(settings.n_latents)}
    if settings.prior == "quadratic":
        return ours | {"mixing": tensors["down"]}
    if settings.prior == "composite":
        rows, columns = tensors["down"].nonzero(as_tuple=True)
        values = tensors["down"][rows, columns]
        return ours | {"mixing_rows": rows, "mixing_columns": columns, "mixing_values": values}
    return ours
