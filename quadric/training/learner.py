"""One autoencoder in training: a step at a time, its whole state savable."""

from math import isfinite
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import Autoencoder, BatchTopKAutoencoder, BilinearAutoencoder
from quadric.training.config import AutoencoderConfig, TrainingConfig
from quadric.training.distributed import current_rank, sum_gradients, sum_over_processes
from quadric.training.optimizers import Optimizers
from quadric.training.schedules import alpha_at, is_mask_frozen, mixing_density_at


class StepReport(NamedTuple):
    """What one step measured, over the whole batch of all processes."""

    step: int
    error: float
    density: float
    alpha: float
    mixing_density: float | None
    n_tokens: int


class DivergedError(ValueError):
    """The loss is no longer a number; nothing was updated with it."""


class Learner:
    """Fits one autoencoder; draws no random numbers after the autoencoder is made."""

    def __init__(
        self, autoencoder: Autoencoder, config: AutoencoderConfig, training: TrainingConfig, step: int = 0
    ) -> None:
        if isinstance(autoencoder, BatchTopKAutoencoder) and current_rank().world_size > 1:
            raise ValueError("BatchTopK chooses among all tokens of a batch; train it in one process, without torchrun")
        self.autoencoder = autoencoder.train()
        self.config, self.training = config, training
        self.next_step = step
        self.optimizers = Optimizers(autoencoder, training.learning_rate, training.momentum)

    def step(self, tokens: Float[Tensor, "n d"]) -> StepReport:
        """One update on one batch, or on this process's part of it."""
        step, config = self.next_step, self.config
        density = self._anneal(step)
        alpha = alpha_at(step, config.alpha, self.training.alpha_warmup_steps) if config.kind == "bilinear" else 0.0
        sums = sum_over_processes(self.autoencoder.loss_sums(self._on_device(tokens)))
        terms = sums.terms(alpha)
        # Read at once and before the backward pass: a GPU is waited for once a step, with the larger half still to do.
        total, error, mean_density = torch.stack(terms).tolist()
        if not isfinite(total):
            raise DivergedError(f"the loss of {config.name} is {total} at step {step}")
        terms.total.backward()  # type: ignore[no-untyped-call]
        sum_gradients(self.autoencoder)
        self.optimizers.step()
        self.next_step += 1
        return StepReport(step, error, mean_density, alpha, density, sums.n_tokens)

    def _on_device(self, tokens: Tensor) -> Tensor:
        """A batch from a cache comes in main memory; from a pinned page it travels while the GPU works."""
        return tokens.to(next(self.autoencoder.parameters()).device, non_blocking=True)

    def _anneal(self, step: int) -> float | None:
        """Thin out C as the schedule says; the mask is recomputed until it freezes."""
        if not isinstance(self.autoencoder, BilinearAutoencoder) or self.autoencoder.prior != "composite":
            return None
        # Entries that were dropped stay dropped: a run continued with more steps never thickens C again.
        density = min(
            mixing_density_at(step, self.training.steps, self.config.mixing_density), self.autoencoder.mixing_density
        )
        if not is_mask_frozen(step, self.training.steps):
            kept = self.autoencoder.set_mixing_density(density)
            self.optimizers.follow_mixing(kept)
        return density

    def state(self) -> dict[str, Tensor]:
        """Parameters, masks and the memory of every optimizer, as named tensors."""
        # Named parameters come once each: tied factors are one tensor, and are saved as one.
        own = {**dict(self.autoencoder.named_parameters()), **dict(self.autoencoder.named_buffers())}
        tensors: dict[str, Tensor] = {f"autoencoder.{name}": value.detach() for name, value in own.items()}
        for part, optimizer in self.optimizers.all().items():
            for index, memory in optimizer.state_dict()["state"].items():
                for name, value in memory.items():
                    tensors[f"optimizer.{part}.{index}.{name}"] = torch.as_tensor(value)
        return tensors

    def restore(self, state: dict[str, Tensor], step: int) -> None:
        """Go back to a saved state, so exactly that the next step gives the same bits."""
        prefix = "autoencoder."
        own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if isinstance(self.autoencoder, BilinearAutoencoder):
            self.autoencoder.restore(own)
        else:
            self.autoencoder.load_state_dict(own)
        self.next_step = step
        self.optimizers = Optimizers(self.autoencoder, self.training.learning_rate, self.training.momentum)
        for part, optimizer in self.optimizers.all().items():
            memory = _memory(state, f"optimizer.{part}.")
            optimizer.load_state_dict(optimizer.state_dict() | {"state": memory})


def _memory(state: dict[str, Tensor], prefix: str) -> dict[int, dict[str, Any]]:
    memory: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            index, name = key.removeprefix(prefix).split(".", 1)
            memory.setdefault(int(index), {})[name] = value
    return memory
