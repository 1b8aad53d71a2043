"""The training loop: any autoencoder, any iterator of batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.training.schedules import alpha_at, is_mask_frozen, mixing_density_at


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to fit an autoencoder; the defaults are the paper's."""

    steps: int = 2048
    """Batches to train on."""
    alpha: float = 0.3
    """Weight of the density penalty."""
    alpha_warmup_steps: int = 256
    """Steps over which alpha grows linearly from 0."""
    mixing_density: float = 0.001
    """Share of C that a composite autoencoder keeps in the end."""
    learning_rate: float = 0.03
    """Constant learning rate of Muon."""
    momentum: float = 0.95
    """Momentum of Muon."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} is not positive; give at least 1")
        if not 0 <= self.alpha_warmup_steps <= self.steps:
            raise ValueError(
                f"alpha_warmup_steps={self.alpha_warmup_steps} exceeds steps={self.steps}; shorten the warm-up"
            )


class StepReport(NamedTuple):
    """What one step measured."""

    step: int
    error: float
    density: float


def train(
    autoencoder: Autoencoder,
    batches: Iterable[Float[Tensor, "n d"]],
    config: TrainingConfig,
    on_step: Callable[[StepReport], None] = lambda report: None,
) -> None:
    """Fit the autoencoder in place, one step a batch."""
    stream = iter(batches)
    optimisers = _optimisers(autoencoder, config)
    for step in range(config.steps):
        _anneal(autoencoder, step, config)
        tokens = next(stream, None)
        if tokens is None:
            raise ValueError(f"the batches ended at step {step} of {config.steps}; give more text or fewer steps")
        terms = autoencoder.loss(tokens, alpha_at(step, config.alpha, config.alpha_warmup_steps))
        if not terms.total.isfinite():
            raise ValueError(
                f"the loss is {terms.total.item()} at step {step}; lower learning_rate={config.learning_rate}"
            )
        terms.total.backward()  # type: ignore[no-untyped-call]
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        on_step(StepReport(step, terms.error.item(), terms.density.item()))


def _anneal(autoencoder: Autoencoder, step: int, config: TrainingConfig) -> None:
    if not isinstance(autoencoder, BilinearAutoencoder) or autoencoder.prior != "composite":
        return
    if not is_mask_frozen(step, config.steps):
        autoencoder.set_mixing_density(mixing_density_at(step, config.steps, config.mixing_density))


def _optimisers(autoencoder: Autoencoder, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """Muon for matrices, AdamW for the rest."""
    matrices = [parameter for parameter in autoencoder.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in autoencoder.parameters() if parameter.ndim != 2]
    muon = torch.optim.Muon(
        matrices, lr=config.learning_rate, momentum=config.momentum, weight_decay=0.0, adjust_lr_fn="original"
    )
    return [muon, torch.optim.AdamW(others, lr=1e-3, weight_decay=0.0)]
