"""Folders as other libraries write them, made without those libraries, and what those compute, written out plainly.

tests/interop/real_packages compares with the libraries themselves where they are installed.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

D, K = 12, 40


def tokens(n: int = 60) -> Tensor:
    """Activations as a language model has them: a large mean, lengths that differ, none of them one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, D, generator=generator) + 4 * torch.randn(D, generator=generator)
    return x * torch.linspace(2, 40, n)[:, None]


def saelens_tensors(*names: str) -> dict[str, Tensor]:
    """Weights by SAELens's names, none of them at its initial value."""
    generator = torch.Generator().manual_seed(1)
    shapes = {"W_enc": (D, K), "W_dec": (K, D), "b_enc": (K,), "b_dec": (D,)}
    found = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return found | {name: 0.5 + 5 * torch.rand(K, generator=generator) for name in names}


def write_saelens(folder: Path, tensors: dict[str, Tensor], **config: Any) -> Path:
    """A folder of SAELens 6."""
    settings = {"d_in": D, "d_sae": K, "dtype": "float32", "device": "cpu", "apply_b_dec_to_input": True}
    settings |= {"normalize_activations": "none", "reshape_activations": "none", "metadata": {}}
    return write(folder, "cfg.json", settings | config, "sae_weights.safetensors", tensors)


def write_sparsify(folder: Path, **config: Any) -> Path:
    """A folder of sparsify."""
    generator = torch.Generator().manual_seed(2)
    shapes = {"encoder.weight": (K, D), "encoder.bias": (K,), "W_dec": (K, D), "b_dec": (D,)}
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    settings = {"expansion_factor": 32, "normalize_decoder": True, "num_latents": K, "k": 5, "multi_topk": False}
    return write(folder, "cfg.json", settings | {"d_in": D} | config, "sae.safetensors", tensors)


def write_published(folder: Path, down: Tensor | None = None, **config: Any) -> Path:
    """A folder of the paper's authors, with expansion 3."""
    generator = torch.Generator().manual_seed(3)
    tensors = {name: torch.randn(3 * D, D, generator=generator) for name in ("left", "right")}
    tensors |= {} if down is None else {"down": down}
    settings = {"layer": 7, "d_model": D, "expansion": 3, "bottleneck": None, "alpha": 1.0, "beta": 0.0}
    settings |= {"kind": "vanilla" if down is None else "mixed", "tags": [], "kwargs": {}}
    return write(folder, "config.json", settings | config, "model.safetensors", tensors)


def write(folder: Path, config_name: str, config: object, weights_name: str, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True)
    (folder / config_name).write_text(json.dumps(config))
    save_file(tensors, folder / weights_name)
    return folder


def topk(pre: Tensor, k: int) -> Tensor:
    """The k largest of every row, one at a time, where they are positive."""
    kept = torch.zeros_like(pre)
    for row, values in enumerate(pre):
        for place in values.argsort(descending=True)[:k]:
            kept[row, place] = max(values[place], 0)
    return kept


def product_space(x: Tensor, reconstruction: Tensor) -> Tensor:
    """‖xxᵀ − x̂x̂ᵀ‖²/‖xxᵀ‖², materialized."""
    x, reconstruction = x.double(), reconstruction.double()
    target = x[:, :, None] * x[:, None]
    found = reconstruction[:, :, None] * reconstruction[:, None]
    return (target - found).square().sum((1, 2)) / target.square().sum((1, 2))
