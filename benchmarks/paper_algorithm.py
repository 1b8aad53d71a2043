"""The algorithm as printed in the paper, the baseline of our benchmarks: dense C, plain autograd, Muon on all matrices.

One difference: zᵀKz is contracted as ((zK)·z), because the printed einsum of three operands, evaluated left to right,
creates n·k² numbers and runs out of memory.
"""

from math import sqrt
from typing import Any, Literal
from unittest.mock import patch

import torch
from jaxtyping import Float
from torch import Tensor, nn

LEARNING_RATE, MOMENTUM = 0.03, 0.95
Precision = Literal["bfloat16", "float32"]


class Float32Muon(torch.optim.Muon):
    """torch's Muon with Newton–Schulz in float32, because CPUs without bfloat16 units emulate bfloat16 slowly."""

    def step(self, closure: Any = None) -> Any:
        with patch.object(Tensor, "bfloat16", Tensor.clone):
            return super().step(closure)


MUONS: dict[Precision, type[torch.optim.Muon]] = {"bfloat16": torch.optim.Muon, "float32": Float32Muon}


class PaperAutoencoder(nn.Module):
    """L, R, dense C with a mask, and the density offset."""

    mask: Tensor

    def __init__(self, d_model: int, n_latents: int, n_hidden: int, prior: str, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shapes = [(n_hidden, d_model), (n_hidden, d_model)]
        shapes += [] if prior == "atomic" else [(n_latents, n_hidden)]
        weights = [nn.init.orthogonal_(torch.empty(shape), generator=generator) for shape in shapes]
        self.left, self.right = nn.Parameter(weights[0]), nn.Parameter(weights[1])
        self.mixing = nn.Parameter(weights[2]) if len(weights) == 3 else None
        self.offset = nn.Parameter(torch.zeros(n_latents))
        self.register_buffer("mask", torch.ones(() if self.mixing is None else self.mixing.shape))

    @torch.no_grad()
    def set_mixing_density(self, density: float) -> None:
        """Keep the globally largest |C|."""
        assert self.mixing is not None
        kept = self.mixing.abs().flatten().topk(max(1, round(density * self.mixing.numel()))).indices
        self.mask = torch.zeros(self.mixing.numel()).index_fill_(0, kept, 1.0).view_as(self.mixing)

    def latents_and_kernel(self, tokens: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """z and K, as in the paper's pseudocode."""
        latents = (tokens @ self.left.T) * (tokens @ self.right.T)
        kernel = (self.left @ self.left.T) * (self.right @ self.right.T)
        if self.mixing is None:
            return latents, kernel
        mixing = self.mixing * self.mask
        return latents @ mixing.T, mixing @ kernel @ mixing.T

    def loss(self, tokens: Float[Tensor, "n d"], alpha: float) -> tuple[Tensor, Tensor]:
        """Total loss and error. Tokens are scaled to unit norm, which makes the printed denominator correct."""
        tokens = tokens / torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
        latents, kernel = self.latents_and_kernel(tokens)
        error = ((latents @ kernel * latents).sum(-1) - 2 * latents.square().sum(-1) + 1).mean()
        centred, n = latents - self.offset, len(tokens)
        density = (centred.abs().sum(0) / centred.square().sum(0).sqrt() - 1) / (sqrt(n) - 1)
        return error + alpha * density.mean(), error


class PaperLearner:
    """The plain training step: backward pass, then Muon and AdamW."""

    def __init__(self, autoencoder: PaperAutoencoder, precision: Precision = "bfloat16") -> None:
        self.autoencoder = autoencoder
        parameters = list(autoencoder.parameters())
        self.optimizers = [
            MUONS[precision](
                [each for each in parameters if each.ndim == 2],
                lr=LEARNING_RATE,
                momentum=MOMENTUM,
                weight_decay=0.0,
                adjust_lr_fn="original",
            ),
            torch.optim.AdamW([each for each in parameters if each.ndim == 1], lr=1e-3, weight_decay=0.0),
        ]

    def step(self, tokens: Float[Tensor, "n d"], alpha: float = 0.3) -> Tensor:
        """One update; returns the error."""
        total, error = self.autoencoder.loss(tokens, alpha)
        total.backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return error.detach()
