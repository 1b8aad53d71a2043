"""Dictionaries of SAELens: a folder with cfg.json and sae_weights.safetensors.

SAELens 6 keeps what concerns the language model under `metadata`; versions 3 to 5 keep one flat config and name the
activation function apart from the architecture. The weights have the same names in all of them.

What SAELens computes, for `apply_b_dec_to_input` = 1 or 0 and x normalized as `normalize_activations` says:

    z = f((x − apply_b_dec_to_input · b_dec) W_enc + b_enc),    x̂ = z W_dec + b_dec, on the scale of x
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quadric._io.files import shown
from quadric.interop.reading.places import hook_point_of
from quadric.interop.reading.tensors import linear_dictionary
from quadric.interop.reading.weights import (
    BY_TENSORS,
    check_shape,
    read_config,
    read_weights,
    text_or_none,
    whole_number,
)
from quadric.model import BilinearAutoencoder, Dictionary, Provenance
from quadric.model.settings import Input
from quadric.model.storage import described

CONFIG = "cfg.json"
WEIGHTS = "sae_weights.safetensors"
SCALER = "activation_scaler.json"
"""Beside a checkpoint of unfinished training: the constant that a finished one has in its weights."""

INPUTS: dict[str, Input] = {"none": "own", "constant_norm_rescale": "constant_norm", "layer_norm": "layer_norm"}
"""By `normalize_activations`."""
READ = ("standard", "topk", "jumprelu")
OURS = "quadric"
"""The architecture of bilinear dictionaries, see `quadric.interop.saelens`."""
INTEGERS = {"mixing_rows", "mixing_columns", "lens_n_tokens"}
"""Tensors of a bilinear dictionary that hold integers."""
CHECKPOINT = "it is a checkpoint of training; save it with save_inference_model, which makes it a jumprelu"
REFUSED = {
    "gated": (
        "its gate makes it a JumpReLU with other tensors: quadric.linear_dictionary(encoder=(W_enc * r_mag.exp()).T, "
        "encoder_bias=b_mag, threshold=b_mag - r_mag.exp() * b_gate, decoder=W_dec, decoder_bias=b_dec)"
    ),
    "batchtopk": CHECKPOINT,
    "matryoshka_batchtopk": CHECKPOINT,
    "abstopk": "its latents have a sign, and a linear dictionary of Quadric has positive ones; read a topk",
    "matching_pursuit": "its encoder is an iteration, not a matrix; read a standard, topk or jumprelu",
    "temporal": "it reads a token together with earlier ones; read a standard, topk or jumprelu",
}


class _Settings(NamedTuple):
    """What a config says, whichever version wrote it."""

    architecture: str
    d_in: int
    d_sae: int
    k: int | None
    normalize_activations: str
    apply_b_dec_to_input: bool
    rescale_by_decoder_norm: bool
    about_model: dict[str, Any]


def read_saelens(folder: Path) -> Dictionary:
    """The dictionary of a SAELens folder.

    Args:
        folder: With cfg.json and sae_weights.safetensors.

    Returns:
        A TopK, JumpReLU or ReLU dictionary that gives SAELens's latents and reconstructions, or the bilinear one that
        `quadric.export` wrote.
    """
    path = folder / CONFIG
    config = read_config(path)
    if config.get("architecture") == OURS:
        return _read_bilinear(config, path)
    settings = _settings(config, path)
    tensors = _weights(folder / WEIGHTS, settings)
    factor = _folded_factor(folder, settings)
    return linear_dictionary(
        encoder=tensors["W_enc"].mT * factor,
        decoder=tensors["W_dec"] / factor,
        encoder_bias=tensors["b_enc"],
        decoder_bias=tensors["b_dec"] / factor,
        n_active=settings.k,
        threshold=tensors.get("threshold"),
        input=INPUTS.get(settings.normalize_activations, "own"),
        subtract_decoder_bias=settings.apply_b_dec_to_input,
        model=text_or_none(settings.about_model, "model_name"),
        hook_point=hook_point_of(text_or_none(settings.about_model, "hook_name") or ""),
    )


def _read_bilinear(config: dict[str, Any], path: Path) -> BilinearAutoencoder:
    """A bilinear dictionary by `quadric.export`; its decoder follows from its own tensors and is left out."""
    stored, where = config.get(OURS), f"{OURS} in {path}"
    dictionary = described(stored, where)
    own, decoder = tensor_shapes(stored, where), ("W_dec", "b_dec")
    integers = INTEGERS & own.keys()
    tensors = read_weights(path.with_name(WEIGHTS), own, optional=decoder, integers=integers)
    made = dictionary.with_tensors({name: tensors[name] for name in own})
    assert isinstance(made, BilinearAutoencoder)
    about = _object(config.get("metadata"))
    made.provenance = Provenance(
        model=text_or_none(about, "model_name"), hook_point=text_or_none(about, "quadric_hook_point")
    )
    return made.eval()


def tensor_shapes(stored: object, where: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a bilinear dictionary by `quadric.export`."""
    shapes = stored.get("shapes") if isinstance(stored, dict) else None
    sizes = shapes.values() if isinstance(shapes, dict) else [None]
    if not all(isinstance(each, list) and all(type(size) is int and size >= 0 for size in each) for each in sizes):
        raise ValueError(f"{where} has no shapes of tensors; export the dictionary again")
    assert isinstance(shapes, dict)
    return {name: tuple(each) for name, each in shapes.items()}


def _settings(config: dict[str, Any], path: Path) -> _Settings:
    about = config.get("metadata")
    architecture, k = _architecture(config, path), None
    if architecture == "topk":
        given = config if "k" in config else _object(config.get("activation_fn_kwargs"))
        k = whole_number(given, "k", path)
    return _Settings(
        architecture=architecture,
        d_in=whole_number(config, "d_in", path),
        d_sae=whole_number(config, "d_sae", path),
        k=k,
        normalize_activations=_normalization(config.get("normalize_activations", "none"), path),
        apply_b_dec_to_input=_switch(config, "apply_b_dec_to_input", True, path),
        rescale_by_decoder_norm=_switch(config, "rescale_acts_by_decoder_norm", False, path),
        # Before version 6 the names are hook_point and hook_name, in the config itself.
        about_model={"hook_name": config.get("hook_point"), **config, **_object(about)},
    )


def _architecture(config: dict[str, Any], path: Path) -> str:
    """What is read, or an error that names what is not."""
    activation = config.get("activation_fn", config.get("activation_fn_str", "relu"))
    architecture = config.get("architecture", "standard")
    if activation == "topk" and architecture == "standard":  # before version 6, TopK was an activation function
        architecture = "topk"
    elif activation not in ("relu", "topk"):
        raise ValueError(f"{path}: activation_fn {shown(activation)} is not read; read a dictionary with relu or topk")
    if architecture in READ:
        return str(architecture)
    if "coder" in str(architecture):
        raise ValueError(
            f"{path}: a '{architecture}' rebuilds another place of the model than it reads, and Quadric's dictionaries "
            f"do not; read a {' or '.join(READ)} one"
        )
    reason = REFUSED.get(architecture, f"Quadric reads {', '.join(READ)}; {BY_TENSORS.removeprefix('or ')}")
    raise ValueError(f"{path}: the architecture {shown(architecture)} is not read: {reason}")


def _normalization(given: object, path: Path) -> str:
    if given is None or given is False:
        return "none"
    if given is True:  # before version 3
        return "expected_average_only_in"
    if given in INPUTS or given == "expected_average_only_in":
        return str(given)
    raise ValueError(
        f"{path}: normalize_activations {shown(given)} is not read; finish the training, which folds it into the "
        f"weights, or read one of {', '.join(INPUTS)}"
    )


def _weights(path: Path, settings: _Settings) -> dict[str, Tensor]:
    """The tensors by SAELens's names, with what decoding multiplies latents by folded into them."""
    thresholds = ("threshold",) if settings.architecture == "jumprelu" else ()
    required = ("W_enc", "W_dec", "b_enc", "b_dec", *thresholds)
    tensors = read_weights(path, required, optional=("scaling_factor",))
    d, k = settings.d_in, settings.d_sae
    shapes = {"W_enc": (d, k), "W_dec": (k, d), "b_enc": (k,), "b_dec": (d,), "threshold": (k,), "scaling_factor": (k,)}
    for name in tensors:
        check_shape(tensors, name, shapes[name], path)
    if (scale := tensors.pop("scaling_factor", None)) is not None:  # before version 6: latents, scaled after training
        tensors["W_dec"] = tensors["W_dec"] * scale[:, None]
    return _with_unit_decoder(tensors) if settings.rescale_by_decoder_norm else tensors


def _with_unit_decoder(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Latents in units of their decoder's norm: z_i·‖d_i‖ is chosen and shown, and decoded along d_i/‖d_i‖."""
    norms: Tensor = torch.linalg.vector_norm(tensors["W_dec"], dim=-1).clamp(min=1e-30)
    return tensors | {
        "W_enc": tensors["W_enc"] * norms,
        "b_enc": tensors["b_enc"] * norms,
        "W_dec": tensors["W_dec"] / norms[:, None],
    }


def _folded_factor(folder: Path, settings: _Settings) -> float:
    """c of expected_average_only_in, which brings activations to √d on average; 1 where it is in the weights."""
    if settings.normalize_activations != "expected_average_only_in":
        return 1.0
    path = folder / SCALER
    factor = read_config(path).get("scaling_factor") if path.is_file() else None
    if not isinstance(factor, float) or not factor > 0:
        raise ValueError(
            f"{folder / CONFIG}: normalize_activations is 'expected_average_only_in', but its constant is not in the "
            "folder; call sae.fold_activation_norm_scaling_factor(constant) in SAELens and save again"
        )
    return factor


def _switch(config: dict[str, Any], name: str, default: bool, path: Path) -> bool:
    value = config.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{path}: {name} is {shown(value)}; expected true or false: copy or download it again")
    return value


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
