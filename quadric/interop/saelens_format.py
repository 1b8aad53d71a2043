"""Folders of SAELens, cfg.json and sae_weights.safetensors, read and written.

What SAELens computes, for `apply_b_dec_to_input` = 1 or 0 and x normalized as `normalize_activations` says:

    z = f((x − apply_b_dec_to_input · b_dec) W_enc + b_enc),    x̂ = z W_dec + b_dec, on the scale of x

SAELens 6 keeps what concerns the language model under `metadata`; versions 3 to 5, which are read too, keep one flat
config and name the activation function apart from the architecture. The weights have the same names in all of them.
Bilinear dictionaries are written as the architecture "quadric", which `import quadric.interop.saelens` registers;
linear ones as SAELens's own "standard", "topk" and "jumprelu", which need no Quadric to load.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save as serialize_tensors
from torch import Tensor

from quadric._io.files import shown, write_atomically, write_json
from quadric.interop.carried import is_linear, linear_decoder
from quadric.interop.hook_names import hook_point_of, transformer_lens_name
from quadric.interop.tensors import (
    BY_TENSORS,
    check_shape,
    linear_dictionary,
    read_config,
    read_weights,
    text_or_none,
    whole_number,
)
from quadric.model import BilinearAutoencoder, Dictionary, LinearAutoencoder, Provenance
from quadric.model.devices import exact
from quadric.model.settings import Input
from quadric.model.storage import described, description
from quadric.version import __version__

CONFIG = "cfg.json"
WEIGHTS = "sae_weights.safetensors"
SCALER = "activation_scaler.json"
"""Beside a checkpoint of unfinished training: the constant that a finished one has in its weights."""

ARCHITECTURE = "quadric"
"""Name of the architecture of bilinear dictionaries in SAELens."""
CONFIG_VERSION = "6.0.0"
"""The SAELens release whose layout of cfg.json is written; later ones of SAELens 6 read it too."""
INPUTS: dict[str, Input] = {"none": "own", "constant_norm_rescale": "constant_norm", "layer_norm": "layer_norm"}
"""What an encoder reads, by `normalize_activations`."""
NORMALIZATIONS = {ours: theirs for theirs, ours in INPUTS.items()} | {"unit": "constant_norm_rescale"}
"""`normalize_activations`, by what an encoder reads; weights for "unit" are folded for √d."""
FOLDED = "expected_average_only_in"
"""A constant per dictionary, which is folded into the weights at the end of training."""
READ = ("standard", "topk", "jumprelu")
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


def read_saelens(folder: Path) -> Dictionary:
    """The dictionary of a SAELens folder.

    A TopK, JumpReLU or ReLU dictionary that gives SAELens's latents and reconstructions, or the bilinear one that
    `quadric.export` wrote.
    """
    path = folder / CONFIG
    config = read_config(path)
    if config.get("architecture") == ARCHITECTURE:
        return _read_bilinear(config, path)
    architecture, normalization = _architecture(config, path), _normalization(config, path)
    d, k = (whole_number(config, name, path) for name in ("d_in", "d_sae"))
    tensors = _weights(folder / WEIGHTS, architecture, d, k)
    if _switch(config, "rescale_acts_by_decoder_norm", False, path):
        tensors = _with_unit_decoder(tensors)
    factor = _folded_factor(folder) if normalization == FOLDED else 1.0
    of_topk = config if "k" in config else _object(config.get("activation_fn_kwargs"))
    # Before version 6 the names are hook_point and hook_name, in the config itself.
    about_model = {"hook_name": config.get("hook_point"), **config, **_object(config.get("metadata"))}
    return linear_dictionary(
        encoder=tensors["W_enc"].mT * factor,
        decoder=tensors["W_dec"] / factor,
        encoder_bias=tensors["b_enc"],
        decoder_bias=tensors["b_dec"] / factor,
        n_active=whole_number(of_topk, "k", path) if architecture == "topk" else None,
        threshold=tensors.get("threshold"),
        input=INPUTS.get(normalization, "own"),
        subtract_decoder_bias=_switch(config, "apply_b_dec_to_input", True, path),
        model=text_or_none(about_model, "model_name"),
        hook_point=hook_point_of(text_or_none(about_model, "hook_name") or ""),
    )


def _read_bilinear(config: dict[str, Any], path: Path) -> Dictionary:
    """A bilinear dictionary by `quadric.export`; its decoder follows from its own tensors and is left out."""
    stored, where = config.get(ARCHITECTURE), f"{ARCHITECTURE} in {path}"
    dictionary, names = described(stored, where), tensor_shapes(stored, where).keys()
    tensors = read_weights(path.with_name(WEIGHTS), names, optional=("W_dec", "b_dec"), integers=INTEGERS & names)
    made = dictionary.with_tensors({name: tensors[name] for name in names})
    about = _object(config.get("metadata"))
    made.provenance = Provenance(
        model=text_or_none(about, "model_name"), hook_point=text_or_none(about, "quadric_hook_point")
    )
    return made.eval()


def tensor_shapes(stored: object, where: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a bilinear dictionary by `quadric.export`."""
    shapes = stored.get("shapes") if isinstance(stored, dict) else None
    sizes = shapes.values() if isinstance(shapes, dict) else [None]
    if not all(isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape) for shape in sizes):
        raise ValueError(f"{where} has no shapes of tensors; export the dictionary again")
    assert isinstance(shapes, dict)
    return {name: tuple(shape) for name, shape in shapes.items()}


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


def _normalization(config: dict[str, Any], path: Path) -> str:
    given = config.get("normalize_activations", "none")
    if given is None or given is False:
        return "none"
    if given is True:  # before version 3
        return FOLDED
    if given in INPUTS or given == FOLDED:
        return str(given)
    raise ValueError(
        f"{path}: normalize_activations {shown(given)} is not read; finish the training, which folds it into the "
        f"weights, or read one of {', '.join(INPUTS)}"
    )


def _weights(path: Path, architecture: str, d: int, k: int) -> dict[str, Tensor]:
    """The tensors by SAELens's names, with what decoding multiplies latents by folded into them."""
    required = ("W_enc", "W_dec", "b_enc", "b_dec", *(("threshold",) if architecture == "jumprelu" else ()))
    tensors = read_weights(path, required, optional=("scaling_factor",))
    shapes = {"W_enc": (d, k), "W_dec": (k, d), "b_enc": (k,), "b_dec": (d,), "threshold": (k,), "scaling_factor": (k,)}
    for name in tensors:
        check_shape(tensors, name, shapes[name], path)
    if (scale := tensors.pop("scaling_factor", None)) is not None:  # before version 6: latents, scaled after training
        tensors["W_dec"] = tensors["W_dec"] * scale[:, None]
    return tensors


def _with_unit_decoder(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Latents in units of their decoder's norm: z_i·‖d_i‖ is chosen and shown, and decoded along d_i/‖d_i‖."""
    norms: Tensor = torch.linalg.vector_norm(tensors["W_dec"], dim=-1).clamp(min=1e-30)
    return tensors | {
        "W_enc": tensors["W_enc"] * norms,
        "b_enc": tensors["b_enc"] * norms,
        "W_dec": tensors["W_dec"] / norms[:, None],
    }


def _folded_factor(folder: Path) -> float:
    """c of expected_average_only_in, which brings activations to √d on average."""
    path = folder / SCALER
    factor = read_config(path).get("scaling_factor") if path.is_file() else None
    if not isinstance(factor, float) or not factor > 0:
        raise ValueError(
            f"{folder / CONFIG}: normalize_activations is '{FOLDED}', but its constant is not in the "
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


class SAELensFiles(NamedTuple):
    """The contents of a SAELens folder."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]


def saelens_files(autoencoder: Dictionary, *, model_name: str | None = None) -> SAELensFiles:
    """What SAELens stores of a dictionary; `model_name` is the language model's, by default the recorded one."""
    if isinstance(autoencoder, BilinearAutoencoder):
        config, tensors = _bilinear(autoencoder)
    elif isinstance(autoencoder, LinearAutoencoder):
        config, tensors = _linear(autoencoder)
    else:
        raise ValueError(
            f"SAELens has no architecture for a '{autoencoder.kind}'; export a bilinear or linear dictionary"
        )
    dtype = torch.promote_types(next(iter(autoencoder.parameters())).dtype, torch.float32)
    common = {
        "d_in": autoencoder.d_model,
        "d_sae": autoencoder.n_latents,
        "dtype": str(dtype).removeprefix("torch."),
        "device": "cpu",
        "reshape_activations": "none",
        "metadata": _metadata(autoencoder.provenance, model_name),
    }
    return SAELensFiles(common | config, {name: _stored(tensor, dtype) for name, tensor in tensors.items()})


def write_saelens(folder: Path, autoencoder: Dictionary, *, model_name: str | None = None) -> None:
    """Write the files that `SAE.load_from_disk` reads; arguments as in `saelens_files`."""
    config, tensors = saelens_files(autoencoder, model_name=model_name)
    write_atomically(folder / WEIGHTS, serialize_tensors(tensors))
    write_json(folder / CONFIG, config)


def load_lines(folder: Path, autoencoder: Dictionary) -> str:
    """Lines of Python that load the folder."""
    needed = "" if autoencoder.is_linear else "import quadric.interop.saelens\n"
    return f"{needed}from sae_lens import SAE\nsae = SAE.load_from_disk({str(folder)!r})"


def _bilinear(autoencoder: BilinearAutoencoder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The tensors under their own names and, with an affine lens, the linear decoder that follows from them."""
    tensors = autoencoder.tensors()
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    config = {
        "architecture": ARCHITECTURE,
        "apply_b_dec_to_input": False,
        "normalize_activations": "none",
        ARCHITECTURE: {**description(autoencoder), "shapes": shapes},
    }
    if is_linear(autoencoder):
        decoder = linear_decoder(autoencoder)
        tensors |= {"W_dec": decoder.rows, "b_dec": decoder.bias}
    return config, tensors


def _linear(autoencoder: LinearAutoencoder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """One of SAELens's own architectures, with weights for the scale on which it reads tokens: √d for unit norm."""
    stored, scale = autoencoder.tensors(), math.sqrt(autoencoder.d_model) if autoencoder.input == "unit" else 1.0
    config: dict[str, Any] = {
        "architecture": "standard",
        "apply_b_dec_to_input": autoencoder.subtract_decoder_bias,
        "normalize_activations": NORMALIZATIONS[autoencoder.input],
    }
    tensors = {
        "W_enc": exact(stored["encoder"]).mT / scale,
        "b_enc": stored["encoder_bias"],
        "W_dec": exact(stored["decoder"]) * scale,
        "b_dec": exact(stored["decoder_bias"]) * scale,
    }
    if "thresholds" in stored:
        return config | {"architecture": "jumprelu"}, tensors | {"threshold": stored["thresholds"]}
    if "threshold" in stored:  # BatchTopK has the threshold of its training
        shared = _just_below(stored["threshold"]).expand(autoencoder.n_latents)
        return config | {"architecture": "jumprelu"}, tensors | {"threshold": shared}
    if autoencoder.n_active is not None:
        return config | {"architecture": "topk", "k": autoencoder.n_active}, tensors
    return config, tensors


def _just_below(threshold: Tensor) -> Tensor:
    """The next smaller number: SAELens keeps what exceeds a threshold, BatchTopK also what equals it."""
    if threshold.isnan():
        raise ValueError("this BatchTopK has no threshold yet; train it before it is exported")
    return torch.nextafter(threshold.cpu().float(), torch.tensor(-torch.inf))


def _stored(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach().cpu()
    return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype).contiguous()


def _metadata(provenance: Provenance, model_name: str | None) -> dict[str, Any]:
    """Where the dictionary belongs, in SAELens's words; what is not known is left out."""
    hook = transformer_lens_name(provenance.hook_point)
    rules = provenance.token_rules or {}
    known = {
        "model_name": model_name or provenance.model,
        "hook_name": hook and hook.name,
        "context_size": provenance.block_length,
        "dataset_path": provenance.corpus,
        "prepend_bos": rules["prepend_bos"] == "always" if "prepend_bos" in rules else None,
        "quadric_version": __version__,
        "quadric_hook_point": provenance.hook_point,
    }
    return {"sae_lens_version": CONFIG_VERSION} | {name: value for name, value in known.items() if value is not None}
