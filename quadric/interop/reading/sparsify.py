"""Dictionaries of EleutherAI's sparsify: a folder with cfg.json and sae.safetensors, named after its hook point.

    z = TopK(ReLU(W_enc (x − b_dec) + b_enc)),    x̂ = W_decᵀ z + b_dec,    x at its own length

A training run is a folder of such folders, `layers.3`, `layers.6` …, beside a config.json that names the model.
"""

from pathlib import Path
from typing import Any

from quadric._io.files import shown
from quadric.interop.reading.places import hook_point_of
from quadric.interop.reading.tensors import linear_dictionary
from quadric.interop.reading.weights import check_shape, read_config, read_weights, text_or_none, whole_number
from quadric.model import LinearAutoencoder

CONFIG = "cfg.json"
WEIGHTS = "sae.safetensors"
RUN_CONFIG = "config.json"
TENSORS = ("encoder.weight", "encoder.bias", "W_dec", "b_dec")
OF_TRAINING = ("expansion_factor", "normalize_decoder", "num_latents", "k", "multi_topk", "d_in", "activation")
"""What a config may say without changing what is computed here from the weights."""
REFUSED = {
    "transcode": "a transcoder rebuilds another place of the model than it reads",
    "skip_connection": "a skip connection is a second, linear path past the latents",
    "signed": "its latents have a sign, and a linear dictionary of Quadric has positive ones",
}


def read_sparsify(folder: Path) -> LinearAutoencoder:
    """The TopK dictionary of a sparsify folder.

    Args:
        folder: With cfg.json and sae.safetensors.

    Returns:
        A TopK dictionary that gives sparsify's latents and reconstructions.
    """
    path = folder / CONFIG
    config = read_config(path)
    _check_read(config, path)
    d = whole_number(config, "d_in", path)
    k = config.get("num_latents") or d * whole_number({"expansion_factor": 32, **config}, "expansion_factor", path)
    tensors = read_weights(folder / WEIGHTS, TENSORS)
    for name, shape in zip(TENSORS, ((k, d), (k,), (k, d), (d,)), strict=True):
        check_shape(tensors, name, shape, folder / WEIGHTS)
    return linear_dictionary(
        encoder=tensors["encoder.weight"],
        decoder=tensors["W_dec"],
        encoder_bias=tensors["encoder.bias"],
        decoder_bias=tensors["b_dec"],
        n_active=whole_number({"k": 32, **config}, "k", path),
        input="own",
        model=_model(folder),
        hook_point=hook_point_of(folder.resolve().name),
    )


def _check_read(config: dict[str, Any], path: Path) -> None:
    activation = config.get("activation", "topk")
    if activation != "topk":
        raise ValueError(f"{path}: activation {shown(activation)} is not read; read a dictionary with topk")
    for name in config.keys() - OF_TRAINING:
        if config[name]:
            reason = REFUSED.get(name, "Quadric does not know what it changes")
            raise ValueError(f"{path}: {name} is {shown(config[name])}, and {reason}; read one without it")


def _model(folder: Path) -> str | None:
    """The language model, from the config of the training run that the folder is in, if it is in one."""
    path = folder.resolve().parent / RUN_CONFIG
    return text_or_none(read_config(path), "model") if path.is_file() else None
