"""Tensors of other libraries' dictionaries: read and checked, and made into a linear dictionary."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from quadric._io.files import read_json, shown
from quadric.model import LinearAutoencoder, Provenance
from quadric.model.settings import Input, JumpReLU, Linear, ReLU, TopK

BY_TENSORS = "or give its tensors to quadric.linear_dictionary"
NORMALISATION: dict[Input, str] = {
    "unit": "unit norm per token",
    "own": "none",
    "constant_norm": "norm √d per token",
    "layer_norm": "layer norm per token",
}
"""How provenance records what an encoder reads."""


def read_config(path: Path) -> dict[str, Any]:
    """The JSON object of a config."""
    config = read_json(path, "copy or download it again")
    if not isinstance(config, dict):
        raise ValueError(f"{path} is {shown(config)}; expected an object: copy or download it again")
    return config


def whole_number(config: dict[str, Any], name: str, path: Path) -> int:
    """A size in a config."""
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{path}: {name} is {shown(value)}; expected a whole number ≥ 1: copy or download it again")
    return value


def text_or_none(config: dict[str, Any], name: str) -> str | None:
    """A name in a config, where it has one."""
    value = config.get(name)
    return value if isinstance(value, str) and value else None


def read_weights(
    path: Path, required: Collection[str], optional: Collection[str] = (), *, integers: Collection[str] = ()
) -> dict[str, Tensor]:
    """The tensors of a file, in float32 at least; missing, unknown and non-finite ones are refused."""
    if not path.is_file():
        raise FileNotFoundError(f"no {path.name} in '{path.parent}'; copy or download the weights as well")
    try:
        tensors = load_file(path)
    except (SafetensorError, ValueError, TypeError, KeyError) as problem:
        raise ValueError(f"{path} is not a safetensors file ({problem}); copy or download it again") from None
    if missing := sorted(set(required) - tensors.keys()):
        raise ValueError(f"{path} lacks {', '.join(missing)}; save the dictionary again, {BY_TENSORS}")
    if unknown := sorted(tensors.keys() - {*required, *optional}):
        expected = ", ".join([*required, *optional])
        raise ValueError(
            f"{path} holds {', '.join(map(str, unknown))[:200]} beside {expected}, so it does more than Quadric would; "
            "read another dictionary"
        )
    for name, tensor in tensors.items():
        if tensor.is_floating_point() == (name in integers) or not bool(tensor.isfinite().all()):
            raise ValueError(f"'{name}' in {path} is not a tensor of finite numbers; train the dictionary again")
    return {name: tensor if name in integers else _at_least_float32(tensor) for name, tensor in tensors.items()}


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def check_shape(tensors: dict[str, Tensor], name: str, shape: tuple[int, ...], path: Path) -> None:
    """Refuse a tensor that does not have the shape that the config gives it."""
    if tuple(tensors[name].shape) != shape:
        raise ValueError(
            f"'{name}' in {path} has shape {tuple(tensors[name].shape)}, but its config says {shape}: they belong "
            "to different dictionaries; copy or download both again"
        )


def linear_dictionary(
    *,
    encoder: Tensor,
    decoder: Tensor,
    encoder_bias: Tensor | None = None,
    decoder_bias: Tensor | None = None,
    n_active: int | None = None,
    threshold: Tensor | float | None = None,
    input: Input = "own",
    subtract_decoder_bias: bool = True,
    model: str | None = None,
    hook_point: str | None = None,
) -> LinearAutoencoder:
    """A linear dictionary from an encoder and a decoder, to evaluate, compare, explain and view like a trained one.

    z = keep(ReLU(W_enc (x − b_dec) + b_enc)),  x̂ = W_decᵀ z + b_dec. What is kept: the `n_active` largest z of a token
    (TopK), those above a threshold (JumpReLU), or, with neither, all positive ones (ReLU).

    Args:
        encoder: W_enc, (latents, d); SAELens's W_enc is its transpose.
        decoder: W_dec, (latents, d), one direction per latent.
        encoder_bias: b_enc, (latents,); zero by default.
        decoder_bias: b_dec, (d,); zero by default.
        n_active: How many latents of a token are kept.
        threshold: Above which latents are kept: one number, or one per latent.
        input: What the encoder reads of an activation x: "own" is x itself, "unit" x/‖x‖, "constant_norm" x·√d/‖x‖,
            "layer_norm" x without its mean, over its standard deviation.
        subtract_decoder_bias: Whether the decoder's bias is subtracted before the encoder.
        model: The language model whose activations it reads, for commands that run it.
        hook_point: Where in the model, e.g. "resid_pre.15".

    Returns:
        A `LinearAutoencoder` in eval mode, with copies of the tensors.

    Example:
        >>> directions = torch.nn.functional.normalize(torch.randn(64, 32), dim=-1)
        >>> ae = quadric.linear_dictionary(encoder=directions, decoder=directions, n_active=8)
        >>> ae
        TopKAutoencoder(d_model=32, n_latents=64, n_active=8, input='own')
        >>> quadric.evaluate(ae, 20 * torch.randn(500, 32), progress=False).kind
        'topk'
    """
    if n_active is not None and threshold is not None:
        raise ValueError(f"n_active={n_active} and threshold are both given; give one, or neither for a plain ReLU")
    if encoder.ndim != 2 or encoder.shape != decoder.shape:
        raise ValueError(
            f"encoder has shape {tuple(encoder.shape)} and decoder {tuple(decoder.shape)}; expected (latents, d) of "
            "both, since a dictionary rebuilds what it reads: transpose the one that has d rows"
        )
    k, d = encoder.shape
    tensors = {
        "encoder": encoder,
        "decoder": decoder,
        "encoder_bias": _vector("encoder_bias", encoder_bias, k, encoder),
        "decoder_bias": _vector("decoder_bias", decoder_bias, d, encoder),
    }
    kind: type[Linear] = ReLU if n_active is None else TopK
    if threshold is not None:
        kind = JumpReLU
        tensors["thresholds"] = _thresholds(threshold, k, encoder)
    active = {} if n_active is None else {"n_active": n_active}
    settings = kind(n_latents=k, input=input, subtract_decoder_bias=subtract_decoder_bias, **active)
    copies = {name: _own_copy(name, tensor) for name, tensor in tensors.items()}
    made = settings.restore(d, copies)
    assert isinstance(made, LinearAutoencoder)
    made.provenance = Provenance(model=model, hook_point=hook_point, normalisation=NORMALISATION[input])
    return made.eval()


def _vector(name: str, given: Tensor | None, size: int, like: Tensor) -> Tensor:
    if given is None:
        return torch.zeros(size, device=like.device)
    if tuple(given.shape) != (size,):
        raise ValueError(f"{name} has shape {tuple(given.shape)}; expected ({size},), or leave it out for zero")
    return given


def _thresholds(given: Tensor | float, n_latents: int, like: Tensor) -> Tensor:
    if isinstance(given, Tensor) and given.ndim:
        return _vector("threshold", given, n_latents, like)
    return torch.full((n_latents,), float(given), dtype=torch.float64, device=like.device)


def _own_copy(name: str, tensor: Tensor) -> Tensor:
    """In float32 at least: rounding to bfloat16 is the other library's; adding up in it need not be ours."""
    copy = _at_least_float32(tensor.detach()).clone()
    if not bool(copy.isfinite().all()):
        raise ValueError(f"{name} holds values that are not finite; look at where it comes from")
    return copy
