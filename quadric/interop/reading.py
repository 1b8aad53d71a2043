"""Dictionaries that were trained elsewhere: which library wrote a folder, and the dictionary in it.

In this order, so that the first that fits counts:

    cfg.json + sae_weights.safetensors   SAELens, see `quadric.interop.saelens_format`
    cfg.json + sae.safetensors           EleutherAI's sparsify
    config.json + model.safetensors      the paper's authors
    config.json                          Quadric, by save_pretrained

A folder of such folders, as sparsify and the paper's authors leave them, holds one dictionary per subfolder.

**sparsify** names a folder after its hook point; a training run is a folder of such folders, `layers.3`, `layers.6` …,
beside a config.json that names the model. With x at its own length,

    z = TopK(ReLU(W_enc (x − b_dec) + b_enc)),    x̂ = W_decᵀ z + b_dec

**The paper's authors** store `left` and `right`, (atoms, d), and for the kinds that mix atoms `down`, (latents, atoms),
which is C. Tokens are read at unit norm at the input of layer `layer`. Without `down` every atom is a latent (atomic).
A `down` of which less than half differs from zero is composite, any other quadratic. The authors' error uses the
printed kernel, whose atoms l rᵀ are not symmetric, and so does the dictionary read here; forms and latents do not
depend on it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from quadric._io.files import shown
from quadric.interop import saelens_format
from quadric.interop.hook_names import hook_point_of
from quadric.interop.tensors import (
    check_shape,
    linear_dictionary,
    read_config,
    read_weights,
    text_or_none,
    whole_number,
)
from quadric.model import Atomic, Composite, Dictionary, LinearAutoencoder, Provenance, Quadratic, load_pretrained
from quadric.model.settings import Bilinear
from quadric.model.storage import CONFIG_NAME

__all__ = ["check_complete", "dictionary_folders", "is_dictionary", "linear_dictionary", "read_dictionary"]

FOREIGN_CONFIG = "cfg.json"
"""Of SAELens and sparsify."""
SPARSIFY_WEIGHTS = "sae.safetensors"
SPARSIFY_TENSORS = ("encoder.weight", "encoder.bias", "W_dec", "b_dec")
OF_TRAINING = ("expansion_factor", "normalize_decoder", "num_latents", "k", "multi_topk", "d_in", "activation")
"""What sparsify's config may say without changing what is computed here from the weights."""
REFUSED = {
    "transcode": "a transcoder rebuilds another place of the model than it reads",
    "skip_connection": "a skip connection is a second, linear path past the latents",
    "signed": "its latents have a sign, and a linear dictionary of Quadric has positive ones",
}
PUBLISHED_WEIGHTS = "model.safetensors"
SPARSE_BELOW = 0.5
"""Share of the authors' C that differs from zero, below which a dictionary is composite."""


class Layout(NamedTuple):
    """Files that tell a library's folders, and what reads them."""

    library: str
    files: tuple[str, ...]
    read: Callable[[Path], Dictionary]


def is_dictionary(folder: Path) -> bool:
    """Whether a folder has the files of a dictionary, of any library; a run or a folder of folders has not."""
    layout = _layout(folder)
    # A training run of sparsify has a config.json of its own beside its dictionaries.
    return layout is not None and (layout.library != "Quadric" or not _inside(folder))


def dictionary_folders(folder: Path) -> dict[str, Path]:
    """Dictionaries of other libraries in the subfolders of a folder, by the name of the subfolder."""
    return {path.name: path for path in _inside(folder)}


def read_dictionary(folder: Path) -> Dictionary:
    """The dictionary in a folder, whichever library wrote it, in eval mode.

    Example:
        >>> quadric.TopKAutoencoder(d_model=8, n_latents=32, n_active=4).save_pretrained("dictionary")
        >>> read_dictionary(Path("dictionary"))
        TopKAutoencoder(d_model=8, n_latents=32, n_active=4)
    """
    layout = _layout(folder)
    check_complete(folder)
    return (layout.read if layout else load_pretrained)(folder)


def check_complete(folder: Path) -> None:
    """Refuse a folder of another library without its weights."""
    if (folder / FOREIGN_CONFIG).is_file() and _layout(folder) is None:
        raise FileNotFoundError(
            f"'{folder}' has a {FOREIGN_CONFIG} but no weights; copy or download {saelens_format.WEIGHTS} (SAELens) or "
            f"{SPARSIFY_WEIGHTS} (sparsify) as well"
        )


def _layout(folder: Path) -> Layout | None:
    return next((layout for layout in LAYOUTS if all((folder / name).is_file() for name in layout.files)), None)


def _inside(folder: Path) -> list[Path]:
    """Subfolders with a dictionary of another library."""
    if not folder.is_dir():
        return []
    layouts = ((path, _layout(path)) for path in sorted(folder.iterdir()) if path.is_dir())
    return [path for path, layout in layouts if layout is not None and layout.library != "Quadric"]


def read_sparsify(folder: Path) -> LinearAutoencoder:
    """The TopK dictionary in a folder of sparsify, with its latents and reconstructions."""
    path = folder / FOREIGN_CONFIG
    config = read_config(path)
    _check_sparsify(config, path)
    d = whole_number(config, "d_in", path)
    k = config.get("num_latents") or d * whole_number({"expansion_factor": 32, **config}, "expansion_factor", path)
    tensors = read_weights(folder / SPARSIFY_WEIGHTS, SPARSIFY_TENSORS)
    for name, shape in zip(SPARSIFY_TENSORS, ((k, d), (k,), (k, d), (d,)), strict=True):
        check_shape(tensors, name, shape, folder / SPARSIFY_WEIGHTS)
    return linear_dictionary(
        encoder=tensors["encoder.weight"],
        decoder=tensors["W_dec"],
        encoder_bias=tensors["encoder.bias"],
        decoder_bias=tensors["b_dec"],
        n_active=whole_number({"k": 32, **config}, "k", path),
        input="own",
        model=_model_of_run(folder),
        hook_point=hook_point_of(folder.resolve().name),
    )


def _check_sparsify(config: dict[str, Any], path: Path) -> None:
    activation = config.get("activation", "topk")
    if activation != "topk":
        raise ValueError(f"{path}: activation {shown(activation)} is not read; read a dictionary with topk")
    for name in config.keys() - OF_TRAINING:
        if config[name]:
            reason = REFUSED.get(name, "Quadric does not know what it changes")
            raise ValueError(f"{path}: {name} is {shown(config[name])}, and {reason}; read one without it")


def _model_of_run(folder: Path) -> str | None:
    """The language model, from the config of the training run that the folder is in, if it is in one."""
    path = folder.resolve().parent / CONFIG_NAME
    return text_or_none(read_config(path), "model") if path.is_file() else None


def read_published(folder: Path) -> Dictionary:
    """The atomic, composite or quadratic dictionary in a folder of the paper's authors."""
    path = folder / CONFIG_NAME
    config = read_config(path)
    if "expansion" not in config or "d_model" not in config:
        raise ValueError(
            f"{path} describes neither a dictionary of Quadric nor one of the paper's authors (no 'expansion' and "
            "'d_model'); give the folder of a dictionary, not of a language model"
        )
    tensors = read_weights(folder / PUBLISHED_WEIGHTS, ("left", "right"), optional=("down",))
    settings = _published_settings(config, path, tensors, folder / PUBLISHED_WEIGHTS)
    made = settings.restore(tensors["left"].shape[1], _as_ours(settings, tensors))
    layer = config.get("layer")
    made.provenance = Provenance(
        model=text_or_none(config, "base"),
        hook_point=f"resid_pre.{layer}" if isinstance(layer, int) else None,
    )
    return made.eval()


def _published_settings(config: dict[str, Any], path: Path, tensors: dict[str, Tensor], weights: Path) -> Bilinear:
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


LAYOUTS = (
    Layout("SAELens", (FOREIGN_CONFIG, saelens_format.WEIGHTS), saelens_format.read_saelens),
    Layout("sparsify", (FOREIGN_CONFIG, SPARSIFY_WEIGHTS), read_sparsify),
    Layout("the paper's authors", (CONFIG_NAME, PUBLISHED_WEIGHTS), read_published),
    Layout("Quadric", (CONFIG_NAME,), load_pretrained),
)
