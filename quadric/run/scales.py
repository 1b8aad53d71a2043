"""Sizes of dictionaries, length of training, and the grid of a run.

Plain dataclasses that do not import torch: the command line generates flags and help from them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

Dictionary = Literal["atomic", "composite", "quadratic", "topk", "batch_topk"]
"""A prior, or one of the linear baselines."""

BILINEAR: tuple[Dictionary, ...] = ("atomic", "composite", "quadratic")
LINEAR: tuple[Dictionary, ...] = ("topk", "batch_topk")
WARMUP_SHARE = 8
"""The warm-up of alpha takes at most 1/8 of the steps if a run is shortened."""

MOST_WITHOUT_MEAN_PENALTY = 600
"""Latents up to which those that are left out of the training error do not add up to much: without the penalty, the
error of the constant block is 0.03 with 576 latents and 1.1 with 4,608 (docs/results/large, large-128)."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of the dictionaries and length of training; the defaults are the paper's.

    Example:
        >>> from quadric.studies.sweep import Scale
        >>> Scale(n_latents=1024, steps=500, alpha_warmup_steps=60).n_active
        32
    """

    n_latents: int = 8192
    """Number of latents."""
    n_hidden: int | None = None
    """Number of atoms, by default twice the number of latents. An atomic dictionary always has one atom per latent."""
    atoms_per_latent: float | None = None
    """Average number of atoms per composite latent at the end of training; instead of --mixing-density."""
    mixing_density: float | None = 0.001
    """Fraction of the entries of C that a composite dictionary keeps at the end; instead of --atoms-per-latent."""
    initial_density: float = 1.0
    """Fraction of the entries of C that a composite dictionary starts with; fewer train faster."""
    lens: Literal["paper", "affine"] = "paper"
    """Coordinates of the forms: the token itself (paper), or the centred token beside a constant (affine)."""
    overlap_penalty: float = 0.0
    """Weight of Σ cos² between the forms of different latents, over their number; keeps latents from being copies."""
    alpha: float = 0.3
    """Weight of the density penalty, where the grid gives none."""
    top_latents: int | None = None
    """How many latents the training error reconstructs each token from, the strongest; --n-latents or more are all."""
    mean_penalty: float | None = None
    """Weight of the error of all latents together on the mean of each batch, which keeps latents that are not among a
    token's strongest from adding up to a constant; by default 1 with --top-latents and over 600 latents, else 0."""
    tied: bool = False
    """L = R: every atom is a square (w·x)², with half the parameters and a cheaper step."""
    n_active: int = 32
    """Active latents per token, for the linear baselines."""
    gradient_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number type of the products that give the gradients of atoms and of dense C; auto is bfloat16 on CUDA alone."""
    # The paper names 2¹¹ steps of 32 × 256 tokens and "8M tokens"; the steps make 16.8 M. We keep the steps.
    steps: int = 2048
    """Number of training steps, one batch each."""
    alpha_warmup_steps: int = 256
    """Steps over which alpha grows from 0. A smaller --steps shortens it to at most an eighth of the steps."""
    learning_rate: float = 0.03
    """Learning rate of Muon."""
    learning_rate_decay: float = 0.0
    """Share of the steps, the last ones, over which the learning rate falls linearly to 0; 0 keeps it constant."""
    sequences_per_step: int = 32
    """Sequences per batch, over all processes together."""
    epochs: int = 1
    """How many times the text may be read."""
    checkpoint_every: int = 256
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of checkpoints to keep."""

    def __post_init__(self) -> None:
        if (self.atoms_per_latent is None) == (self.mixing_density is None):
            raise ValueError(
                f"atoms_per_latent={self.atoms_per_latent} and mixing_density={self.mixing_density} both decide how "
                "many entries C keeps; give exactly one of them"
            )

    def mean_penalty_of(self, n_latents: int) -> float:
        """Weight of the penalty on the mean; by default none where few latents are left out of the training error."""
        if self.mean_penalty is not None:
            return self.mean_penalty
        leaves_out = self.top_latents is not None and self.top_latents < n_latents
        return float(leaves_out and n_latents > MOST_WITHOUT_MEAN_PENALTY)

    def density_of(self, n_hidden: int) -> float:
        """Fraction of the entries of C that a composite dictionary with so many atoms keeps."""
        if self.atoms_per_latent is None:
            assert self.mixing_density is not None
            return self.mixing_density
        return min(1.0, self.atoms_per_latent / n_hidden)


PAPER = Scale()
"""The paper's sizes and its method as printed."""
BETTER: dict[str, Any] = {
    "lens": "affine", "atoms_per_latent": 16.0, "mixing_density": None, "overlap_penalty": 0.01,
    "alpha": 0.05, "top_latents": 32,
}  # fmt: skip
"""Where the default departs from the paper, because it measures better (docs/centre.md)."""
LARGE = replace(PAPER, **BETTER)
"""The paper's sizes, for an accelerator."""
# Reads the embedded text once; on a CPU the language model takes most of the time.
SMALL = Scale(
    n_latents=1024, steps=200, alpha_warmup_steps=32, sequences_per_step=16, checkpoint_every=50, **BETTER
)  # fmt: skip
# Five minutes on two cores: few tokens, read many times.
DEMO = Scale(
    n_latents=512, steps=300, alpha_warmup_steps=40, sequences_per_step=16, epochs=12, checkpoint_every=100, **BETTER
)  # fmt: skip
DEMO_TOKENS = 110_000
FIT = Scale(n_latents=512, **BETTER)
"""The dictionary of `quadric.fit`, which has its own arguments for the length of training."""
FIT_AS_PRINTED = replace(PAPER, n_latents=512, atoms_per_latent=16.0, mixing_density=None)
"""The dictionary of `quadric.fit` with the paper's lens: as printed, with the paper's number of atoms per latent."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Settings that vary between the autoencoders of a run; one is trained for every combination."""

    dictionaries: tuple[Dictionary, ...] = ("composite",)
    """Priors on the mixing of atoms into latents, or the linear baselines topk and batch_topk."""
    alphas: tuple[float, ...] = ()
    """Weights of the density penalty; the scale's own if there are none. The linear baselines have none."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights."""


USED_BY: dict[str, tuple[Dictionary, ...]] = {
    "n_hidden": ("composite", "quadratic"),
    **dict.fromkeys(("atoms_per_latent", "mixing_density", "initial_density"), ("composite",)),
    **dict.fromkeys(("lens", "overlap_penalty", "alpha", "alphas", "alpha_warmup_steps"), BILINEAR),
    **dict.fromkeys(("top_latents", "mean_penalty", "tied", "gradient_dtype"), BILINEAR),
    "n_active": LINEAR,
}
"""Dictionaries that a setting of a scale or a grid changes, where it does not change all."""


def ignored(names: Iterable[str], dictionaries: Iterable[Dictionary]) -> list[str]:
    """Those of the named settings that change none of the dictionaries."""
    trained = set(dictionaries)
    return [name for name in names if name in USED_BY and trained.isdisjoint(USED_BY[name])]


def resized(scale: Scale, changes: dict[str, Any]) -> Scale:
    """A scale with some fields changed; fewer steps shorten the warm-up of alpha unless it is given too."""
    if "steps" in changes and "alpha_warmup_steps" not in changes:
        changes = changes | {"alpha_warmup_steps": min(scale.alpha_warmup_steps, changes["steps"] // WARMUP_SHARE)}
    ways = {"atoms_per_latent", "mixing_density"}
    if len(given := ways & changes.keys()) == 1:
        changes = changes | dict.fromkeys(ways - given)
    found = replace(scale, **changes)
    n_hidden, atoms = found.n_hidden or 2 * found.n_latents, changes.get("atoms_per_latent")
    if atoms is not None and not 0 < atoms <= n_hidden:
        raise ValueError(f"atoms_per_latent={atoms:g} is outside (0, {n_hidden}]; give at most the number of atoms")
    return found
