"""Sizes of dictionaries, length of training, and the grid of a run.

Plain dataclasses that do not import torch: the command line generates flags and help from them.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

Dictionary = Literal["atomic", "composite", "quadratic", "topk", "batch_topk"]
"""A prior, or one of the linear baselines."""

WARMUP_SHARE = 8
"""The warm-up of alpha takes at most 1/8 of the steps if a run is shortened."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of the dictionaries and length of training; the defaults are the paper's."""

    n_latents: int = 8192
    """Number of latents."""
    n_hidden: int | None = None
    """Number of atoms, by default twice the number of latents. An atomic dictionary always has one atom per latent."""
    mixing_density: float = 0.001
    """Fraction of the entries of C that a composite dictionary keeps at the end of training."""
    n_active: int = 32
    """Active latents per token, for the linear baselines."""
    # The paper names 2¹¹ steps of 32 × 256 tokens and "8M tokens"; the steps make 16.8 M. We keep the steps.
    steps: int = 2048
    """Number of training steps, one batch each."""
    alpha_warmup_steps: int = 256
    """Steps over which alpha grows from 0. A smaller --steps shortens it to at most an eighth of the steps."""
    sequences_per_step: int = 32
    """Sequences per batch, over all processes together."""
    epochs: int = 1
    """How many times the text may be read."""
    checkpoint_every: int = 256
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of checkpoints to keep."""


PAPER = Scale()
# Reads the embedded text once; on a CPU the language model takes most of the time.
SMALL = Scale(
    n_latents=1024, mixing_density=0.002, steps=200, alpha_warmup_steps=32, sequences_per_step=16, checkpoint_every=50
)
# Five minutes on two cores: few tokens, read many times. C is denser than the paper's, since 0.1 % of so small a C
# would leave one atom per latent.
DEMO = Scale(
    n_latents=512, mixing_density=0.006, steps=300, alpha_warmup_steps=40, sequences_per_step=16, epochs=12,
    checkpoint_every=100,
)  # fmt: skip
DEMO_TOKENS = 110_000


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Settings that vary between the autoencoders of a run; one is trained for every combination."""

    dictionaries: tuple[Dictionary, ...] = ("composite",)
    """Priors on the mixing of atoms into latents, or the linear baselines topk and batch_topk."""
    alphas: tuple[float, ...] = (0.3,)
    """Weights of the density penalty; the linear baselines have none."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights."""


def resized(scale: Scale, changes: dict[str, Any]) -> Scale:
    """A scale with some fields changed; fewer steps shorten the warm-up of alpha unless it is given too."""
    if "steps" in changes and "alpha_warmup_steps" not in changes:
        changes = changes | {"alpha_warmup_steps": min(scale.alpha_warmup_steps, changes["steps"] // WARMUP_SHARE)}
    return replace(scale, **changes)
