"""Reading the tensors of another library's file, with every fault named in one line."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from quadric._io.files import read_json, shown

BY_TENSORS = "or give its tensors to quadric.linear_dictionary"


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
    return {name: each if name in integers else _at_least_float32(each) for name, each in tensors.items()}


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def check_shape(tensors: dict[str, Tensor], name: str, shape: tuple[int, ...], path: Path) -> None:
    """Refuse a tensor that does not have the shape that the config gives it."""
    found = tuple(tensors[name].shape)
    if found != shape:
        raise ValueError(
            f"'{name}' in {path} has shape {found}, but its config says {shape}: they belong to different "
            "dictionaries; copy or download both again"
        )
