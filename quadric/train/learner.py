"""One autoencoder in training: a step at a time, on schedule, with a state that can be saved."""

import warnings
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model import Autoencoder, BatchTopKAutoencoder, BilinearAutoencoder
from quadric.model.fast.products import gradient_products_in
from quadric.model.fast.shared import Share
from quadric.model.objective import LossSums
from quadric.train.config import AutoencoderConfig, TrainingConfig
from quadric.train.distributed import current_rank, sum_gradients, sum_over_processes
from quadric.train.machine import emulates_bfloat16
from quadric.train.optimizers import Optimizers

# Schedules are pure functions of the step, which counts from 0.


def alpha_at(step: int, alpha: float, warmup_steps: int) -> float:
    """Linear warm-up of the density penalty from 0, so that reconstruction is learned first."""
    return alpha * min(1.0, step / warmup_steps) if warmup_steps else alpha


def mixing_density_at(step: int, steps: int, target: float, initial: float = 1.0) -> float:
    """Geometric decay from the initial density to the target over the first half of training."""
    return float(initial * (target / initial) ** min(1.0, 2 * step / steps))


def is_mask_frozen(step: int, steps: int) -> bool:
    """Whether the support of C is fixed: during the last fifth of training."""
    return 5 * step >= 4 * steps


def decay_at(step: int, steps: int, decay: float) -> float:
    """Factor of all learning rates: 1, then linearly down over the last `decay` of the steps, to 0 after the last."""
    falling = decay * steps
    return min(1.0, (steps - step) / falling) if falling else 1.0


class StepReport(NamedTuple):
    """Measurements of one step, over the whole batch of all processes."""

    step: int
    error: float
    density: float
    alpha: float
    mixing_density: float | None
    n_tokens: int


class DivergedError(ValueError):
    """The loss is not finite; no parameter was updated with it."""


class Learner:
    """Trains one autoencoder; draws no random numbers after the autoencoder is initialized.

    Args:
        autoencoder: the autoencoder, trained in place.
        config: its configuration.
        training: schedules and learning rates.
        step: number of steps already taken.

    Example:
        >>> from quadric.train import AutoencoderConfig, Learner, TrainingConfig
        >>> config = AutoencoderConfig(hook_point="rows", prior="atomic", n_latents=16)
        >>> learner = Learner(config.build(8), config, TrainingConfig(steps=2, alpha_warmup_steps=1))
        >>> learner.step(torch.randn(64, 8)).n_tokens
        64
    """

    def __init__(
        self, autoencoder: Autoencoder, config: AutoencoderConfig, training: TrainingConfig, step: int = 0
    ) -> None:
        self.n_processes = current_rank().world_size
        if isinstance(autoencoder, BatchTopKAutoencoder) and self.n_processes > 1:
            raise ValueError("BatchTopK chooses among all tokens of a batch; train it in one process, without torchrun")
        warn_of_emulation(config, next(autoencoder.parameters()).device)
        self.autoencoder = autoencoder.train()
        self.config, self.training = config, training
        self.next_step = step
        self.optimizers = self._new_optimizers()

    def _new_optimizers(self) -> Optimizers:
        training = self.training
        return Optimizers(self.autoencoder, training.learning_rate, training.momentum, self.config.gradient_dtype)

    def step(self, tokens: Float[Tensor, "n d"]) -> StepReport:
        """One update on one batch, or on this process's part of it."""
        step, config = self.next_step, self.config
        density = self._anneal(step)
        alpha = alpha_at(step, config.alpha, self.training.alpha_warmup_steps) if config.kind == "bilinear" else 0.0
        sums = self._sums(self._on_device(tokens))
        terms = sums.terms(alpha)
        # One transfer, before the backward pass: the GPU is synchronized once per step, with most work still queued.
        total, error, mean_density = torch.stack(terms).tolist()
        if not (isfinite(total) and isfinite(error)):
            raise DivergedError(f"the loss of {config.name} is {total} (error {error}) at step {step}")
        with gradient_products_in(config.gradient_dtype):
            terms.total.backward()  # type: ignore[no-untyped-call]
        if self.n_processes > 1:
            sum_gradients(self.autoencoder)
        self.optimizers.step(decay_at(step, self.training.steps, self.training.learning_rate_decay))
        self.next_step += 1
        return StepReport(step, error, mean_density, alpha, density, sums.n_tokens)

    def _sums(self, tokens: Tensor) -> LossSums:
        """Sums over the tokens of all processes, which share the work on a bilinear autoencoder's kernel."""
        own_sums: Callable[..., LossSums] = self.autoencoder.loss_sums
        if self.n_processes > 1 and isinstance(self.autoencoder, BilinearAutoencoder):
            own_sums = partial(own_sums, share=Share(*current_rank()))
        config = self.config
        sums = own_sums(
            tokens,
            overlap_penalty=config.overlap_penalty,
            top_latents=config.top_latents,
            mean_penalty=config.mean_penalty,
        )
        return sum_over_processes(sums) if self.n_processes > 1 else sums

    def _on_device(self, tokens: Tensor) -> Tensor:
        """The batch on the parameters' device; from pinned memory the copy overlaps with the GPU's work."""
        return tokens.to(next(self.autoencoder.parameters()).device, non_blocking=True)

    def _anneal(self, step: int) -> float | None:
        """Set the density of C to the schedule's, until the support freezes."""
        if not isinstance(self.autoencoder, BilinearAutoencoder) or self.autoencoder.prior != "composite":
            return None
        # Entries that were dropped stay dropped: a run continued with more steps never thickens C again.
        density = min(
            mixing_density_at(step, self.training.steps, self.config.mixing_density, self.config.initial_density),
            self.autoencoder.mixing_density,
        )
        if not is_mask_frozen(step, self.training.steps):
            kept = self.autoencoder.set_mixing_density(density)
            self.optimizers.follow_mixing(kept)
        return density

    def state(self) -> dict[str, Tensor]:
        """Parameters, buffers and the state of every optimizer, as named tensors."""
        tensors: dict[str, Tensor] = {f"autoencoder.{name}": value for name, value in self._autoencoder_state().items()}
        for part, optimizer in self.optimizers.all().items():
            for index, memory in optimizer.state_dict()["state"].items():
                for name, value in memory.items():
                    tensors[f"optimizer.{part}.{index}.{name}"] = torch.as_tensor(value)
        return tensors

    def _autoencoder_state(self) -> dict[str, Tensor]:
        """The state_dict, but tied factors, which are one parameter under two names, only once."""
        named = {name for name, _ in self.autoencoder.named_parameters(remove_duplicate=False)}
        once = {name for name, _ in self.autoencoder.named_parameters()}
        return {
            name: value for name, value in self.autoencoder.state_dict().items() if name in once or name not in named
        }

    def restore(self, state: dict[str, Tensor], step: int) -> None:
        """Return to a saved state exactly: the next step gives the same bits."""
        prefix = "autoencoder."
        own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if isinstance(self.autoencoder, BilinearAutoencoder):
            self.autoencoder.restore(own)
        else:
            self.autoencoder.load_state_dict(own)
        self.next_step = step
        self.optimizers = self._new_optimizers()
        for part, optimizer in self.optimizers.all().items():
            # Older checkpoints spell the prefix "optimiser".
            memory = _optimizer_state(state, f"optimizer.{part}.") or _optimizer_state(state, f"optimiser.{part}.")
            optimizer.load_state_dict(optimizer.state_dict() | {"state": memory})


def warn_of_emulation(config: AutoencoderConfig, device: torch.device) -> None:
    """Warn if bfloat16 was asked for on a CPU that computes it in software, many times slower than float32."""
    if config.gradient_dtype == "bfloat16" and device.type == "cpu" and emulates_bfloat16():
        warnings.warn(
            "this CPU has no instructions for bfloat16, so gradient_dtype='bfloat16' makes steps slower; leave it out",
            stacklevel=3,
        )


def _optimizer_state(state: dict[str, Tensor], prefix: str) -> dict[int, dict[str, Any]]:
    memory: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            index, name = key.removeprefix(prefix).split(".", 1)
            memory.setdefault(int(index), {})[name] = value
    return memory
