"""A dictionary as a folder that SAELens 6 loads: cfg.json and sae_weights.safetensors.

Bilinear dictionaries become the architecture "quadric", which `import quadric.interop.saelens` registers. Linear ones
become SAELens's own "standard", "topk" and "jumprelu" and need no Quadric to load.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save as serialize_tensors
from torch import Tensor

from quadric._io.files import write_atomically, write_json
from quadric.interop.carried import is_linear, linear_decoder
from quadric.interop.hook_names import transformer_lens_name
from quadric.model import (
    BatchTopKAutoencoder,
    BilinearAutoencoder,
    Dictionary,
    JumpReLUAutoencoder,
    LinearAutoencoder,
    Provenance,
    TopKAutoencoder,
)
from quadric.model.settings import Input
from quadric.model.storage import description
from quadric.version import __version__

ARCHITECTURE = "quadric"
"""Name of the architecture of bilinear dictionaries in SAELens."""
CONFIG_NAME, WEIGHTS_NAME = "cfg.json", "sae_weights.safetensors"
CONFIG_VERSION = "6.0.0"
"""The SAELens release whose layout of cfg.json this is; later ones of SAELens 6 read it too."""
NORMALIZATIONS: dict[Input, str] = {
    "own": "none",
    "unit": "constant_norm_rescale",
    "constant_norm": "constant_norm_rescale",
    "layer_norm": "layer_norm",
}
"""What SAELens calls the scale on which an encoder reads tokens; weights for "unit" are folded for √d."""


class SAELensFiles(NamedTuple):
    """The contents of a SAELens folder."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]


def saelens_files(autoencoder: Dictionary, *, model_name: str | None = None) -> SAELensFiles:
    """What SAELens stores of a dictionary.

    Args:
        autoencoder: A bilinear or linear autoencoder.
        model_name: Name of the language model for SAELens; by default the recorded one.

    Returns:
        The contents of cfg.json and of sae_weights.safetensors.
    """
    if isinstance(autoencoder, BilinearAutoencoder):
        own, tensors = _bilinear(autoencoder)
    elif isinstance(autoencoder, LinearAutoencoder):
        own, tensors = _linear(autoencoder)
    else:
        raise ValueError(
            f"SAELens has no architecture for a '{autoencoder.kind}'; export a bilinear or linear dictionary"
        )
    dtype = torch.promote_types(next(iter(autoencoder.parameters())).dtype, torch.float32)
    config = {
        "d_in": autoencoder.d_model,
        "d_sae": autoencoder.n_latents,
        "dtype": str(dtype).removeprefix("torch."),
        "device": "cpu",
        "reshape_activations": "none",
        **own,
        "metadata": _metadata(autoencoder.provenance, model_name),
    }
    return SAELensFiles(config, {name: _stored(tensor, dtype) for name, tensor in tensors.items()})


def write_saelens(folder: Path, autoencoder: Dictionary, *, model_name: str | None = None) -> None:
    """Write the files that `SAE.load_from_disk` reads; arguments as in `saelens_files`."""
    config, tensors = saelens_files(autoencoder, model_name=model_name)
    write_atomically(folder / WEIGHTS_NAME, serialize_tensors(tensors))
    write_json(folder / CONFIG_NAME, config)


def load_lines(folder: Path, autoencoder: Dictionary) -> str:
    """Lines of Python that load the folder."""
    needed = "" if autoencoder.is_linear else "import quadric.interop.saelens\n"
    return f"{needed}from sae_lens import SAE\nsae = SAE.load_from_disk({str(folder)!r})"


def _bilinear(autoencoder: BilinearAutoencoder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The tensors under their own names and, with an affine lens, the linear decoder that follows from them."""
    tensors = dict(autoencoder.tensors())
    if is_linear(autoencoder):
        decoder = linear_decoder(autoencoder)
        tensors |= {"W_dec": decoder.rows, "b_dec": decoder.bias}
    shapes = {name: list(tensor.shape) for name, tensor in autoencoder.tensors().items()}
    described = {**description(autoencoder), "shapes": shapes}
    own = {"apply_b_dec_to_input": False, "normalize_activations": "none", "quadric": described}
    return {"architecture": ARCHITECTURE, **own}, tensors


def _linear(autoencoder: LinearAutoencoder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """One of SAELens's own architectures; BatchTopK has the threshold of its training, so it is a JumpReLU."""
    config: dict[str, Any] = {
        "apply_b_dec_to_input": autoencoder.subtract_decoder_bias,
        "normalize_activations": NORMALIZATIONS[autoencoder.input],
    }
    tensors = _weights(autoencoder)
    if isinstance(autoencoder, TopKAutoencoder):
        return {"architecture": "topk", "k": autoencoder.n_active, **config}, tensors
    if isinstance(autoencoder, BatchTopKAutoencoder):
        return {"architecture": "jumprelu", **config}, tensors | _threshold(autoencoder)
    if isinstance(autoencoder, JumpReLUAutoencoder):
        return {"architecture": "jumprelu", **config}, tensors | {"threshold": autoencoder.thresholds}
    return {"architecture": "standard", **config}, tensors


def _weights(autoencoder: LinearAutoencoder) -> dict[str, Tensor]:
    """The weights for the scale on which SAELens reads tokens: √d instead of unit norm, and else as they are."""
    scale = math.sqrt(autoencoder.d_model) if autoencoder.input == "unit" else 1.0
    return {
        "W_enc": autoencoder.encoder.double().mT / scale,
        "b_enc": autoencoder.encoder_bias,
        "W_dec": autoencoder.decoder.double() * scale,
        "b_dec": autoencoder.decoder_bias.double() * scale,
    }


def _threshold(autoencoder: BatchTopKAutoencoder) -> dict[str, Tensor]:
    """The largest number below the threshold: SAELens keeps what exceeds it, Quadric also what equals it."""
    if autoencoder.threshold.isnan():
        raise ValueError("this BatchTopK has no threshold yet; train it before it is exported")
    below = torch.nextafter(autoencoder.threshold.float(), torch.tensor(-torch.inf))
    return {"threshold": below.expand(autoencoder.n_latents)}


def _stored(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach().cpu()
    return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype).contiguous()


def _metadata(provenance: Provenance, model_name: str | None) -> Mapping[str, Any]:
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
