"""Flags that decide how large the dictionaries are and how long they are trained."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from quadric.cli.activation_flags import ActivationFlags

if TYPE_CHECKING:
    from quadric.runs.recipes import Scale


@dataclass(frozen=True, kw_only=True)
class ScaleFlags(ActivationFlags):
    """Which activations; and sizes and steps, by recipe or one by one."""

    recipe: Literal["auto", "paper", "small"] = "auto"
    """Where the sizes below come from if they are left out: the paper's k = 8192, h = 16384 and 2048 steps of 32 × 256
    tokens; or small, k = 1024, h = 2048 and 200 steps of 16 × 256. Auto is small on a CPU and paper elsewhere."""
    n_latents: int | None = None
    """Size of the dictionary."""
    n_hidden: int | None = None
    """Atoms; twice the latents if left out, and as many as latents in an atomic dictionary."""
    mixing_density: float | None = None
    """Share of C that a composite dictionary keeps in the end."""
    n_active: int | None = None
    """Latents that fire for a token, in the linear baselines."""
    steps: int | None = None
    """Batches to train on."""
    alpha_warmup_steps: int | None = None
    """Steps over which alpha grows from 0; at most an eighth of --steps where only those are given."""
    sequences_per_step: int | None = None
    """Sequences in a batch, over all processes together."""
    epochs: int | None = None
    """How often the text may be read."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    keep_checkpoints: int | None = None
    """Checkpoints to keep."""

    def scale(self) -> "Scale":
        """The recipe's sizes, with those that were given in their place."""
        from quadric.activations.models import chosen_device
        from quadric.runs.recipes import PAPER, SMALL

        on_cpu = chosen_device(self.device).type == "cpu"
        scale = SMALL if self.recipe == "small" or (self.recipe == "auto" and on_cpu) else PAPER
        given = {field.name: getattr(self, field.name) for field in fields(scale)}
        changed = {name: value for name, value in given.items() if value is not None}
        if "steps" in changed and "alpha_warmup_steps" not in changed:
            changed["alpha_warmup_steps"] = min(scale.alpha_warmup_steps, changed["steps"] // 8)
        return replace(scale, **changed)

    def check_resumes_with(self, allowed: tuple[str, ...]) -> None:
        """Refuse flags that going on would ignore."""
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if refused := [f"--{name.replace('_', '-')}" for name in given if name not in allowed]:
            raise ValueError(
                f"{', '.join(refused)} cannot be given with --resume: what was begun decides; leave it out, or start "
                "anew with --out"
            )
