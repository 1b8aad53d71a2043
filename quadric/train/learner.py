"""One dictionary in training: a step at a time, on schedule, with a state that can be saved."""

import warnings
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model import Dictionary, Term, values_of
from quadric.model.devices import CPU, device_of
from quadric.train.distributed import average_gradients, current_processes
from quadric.train.optimizers import Optimizers
from quadric.train.settings import ROWS, Training


def decay_at(step: int, steps: int, decay: float) -> float:
    """Factor of all learning rates: 1, then linearly down over the last `decay` of the steps, to 0 after the last."""
    falling = decay * steps
    return min(1.0, (steps - step) / falling) if falling else 1.0


class DivergedError(ValueError):
    """The loss is not finite; no parameter was updated with it."""


class Learner:
    """Trains one dictionary; draws no random numbers after the dictionary is initialized.

    Args:
        dictionary: trained in place.
        loss: its terms; by default those of its kind.
        training: schedules and learning rates.
        name: in reports and checkpoints.
        hook_point: of the activations in a batch that it reads.

    Example:
        >>> from quadric.train import Learner, Training
        >>> learner = Learner(quadric.Atomic(n_latents=16, lens="paper").build(8), training=Training(steps=2))
        >>> learner.step(torch.randn(64, 8))["tokens"]
        64
    """

    def __init__(
        self,
        dictionary: Dictionary,
        loss: Iterable[Term] | None = None,
        training: Training | None = None,
        *,
        name: str = "dictionary",
        hook_point: str = ROWS,
    ) -> None:
        self.loss = dictionary.settings.default_loss() if loss is None else tuple(loss)
        dictionary.settings.check_loss(self.loss)
        self.training = (training or Training()).resolved(dictionary.settings, dictionary.d_model)
        self.training.check_loss(self.loss)
        if taken := dictionary.facts().keys() & {term.name for term in self.loss}:
            raise ValueError(f"a {dictionary.kind} reports a {', '.join(taken)} of its own; give the term another name")
        self.processes = current_processes()
        if dictionary.settings.trains_in_one_process and self.processes.world_size > 1:
            raise ValueError(
                f"a {dictionary.kind} chooses among all tokens of a batch; train it in one process, without torchrun"
            )
        warn_of_emulation(self.training, next(dictionary.parameters()).device)
        self.dictionary = dictionary.train()
        self.name, self.hook_point = name, hook_point
        self.step_index = 0
        """Steps taken."""
        self.report: Mapping[str, float] = {}
        """Value of every term in the last step by its name, facts of the dictionary, and the number of tokens."""
        self.optimizers = Optimizers(dictionary, self.training)

    def step(self, batch: Float[Tensor, "n d"]) -> Mapping[str, float]:
        """One update on one batch, or on this process's part of it; returns the report."""
        dictionary, index, steps = self.dictionary, self.step_index, self.training.steps
        if (moved := dictionary.before_step(index, steps)) is not None:
            self.optimizers.follow(moved)
        step = dictionary.step(self._on_device(batch), self.loss, index=index, steps=steps, processes=self.processes)
        total, values = values_of(self.loss, step)
        # One transfer, before the backward pass: the GPU is synchronized once per step, with most work still queued.
        numbers = torch.stack([total, *values.values()]).tolist()
        self.report = dict(zip(values, numbers[1:], strict=True)) | dictionary.facts() | {"tokens": step.n_tokens}
        self._check_finite(numbers)
        step.backward(total, self.training.gradient_dtype)
        average_gradients(dictionary, self.processes)
        self.optimizers.step(decay_at(index, steps, self.training.decay))
        dictionary.after_step(step)
        self.step_index += 1
        return self.report

    def _on_device(self, batch: Tensor) -> Tensor:
        """The batch on the parameters' device; from pinned memory the copy overlaps with the GPU's work."""
        return batch.to(device_of(self.dictionary), non_blocking=batch.device == CPU and batch.is_pinned())

    def _check_finite(self, numbers: list[float]) -> None:
        if not all(map(isfinite, numbers)):
            values = ", ".join(f"{name} {self.report[name]:.4g}" for name in (term.name for term in self.loss))
            raise DivergedError(f"the loss of {self.name} is {numbers[0]} ({values}) at step {self.step_index}")

    def state(self) -> dict[str, Tensor]:
        """Parameters, buffers and the state of every optimizer, as named tensors."""
        tensors = {f"dictionary.{name}": value for name, value in self._dictionary_state().items()}
        for part, optimizer in self.optimizers.parts.items():
            for index, memory in optimizer.state_dict()["state"].items():
                for name, value in memory.items():
                    tensors[f"optimizer.{part}.{index}.{name}"] = torch.as_tensor(value)
        return tensors

    def _dictionary_state(self) -> dict[str, Tensor]:
        """The state_dict; a parameter under two names, such as L = R, only once."""
        named = {name for name, _ in self.dictionary.named_parameters(remove_duplicate=False)}
        once = {name for name, _ in self.dictionary.named_parameters()}
        return {
            name: value for name, value in self.dictionary.state_dict().items() if name in once or name not in named
        }

    def restore(self, state: dict[str, Tensor], step: int) -> None:
        """Return to a saved state exactly: the next step gives the same bits."""
        prefix = "dictionary."
        self.dictionary.restore(
            {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        )
        self.step_index = step
        self.optimizers = Optimizers(self.dictionary, self.training)
        for part, optimizer in self.optimizers.parts.items():
            memory = _optimizer_state(state, f"optimizer.{part}.")
            optimizer.load_state_dict(optimizer.state_dict() | {"state": memory})


def warn_of_emulation(training: Training, device: torch.device) -> None:
    """Warn if bfloat16 was asked for on a CPU that computes it in software, many times slower than float32."""
    if training.gradient_dtype == "bfloat16" and device.type == "cpu" and emulates_bfloat16():
        warnings.warn(
            "this CPU has no instructions for bfloat16, so gradient_dtype='bfloat16' makes steps slower; leave it out",
            stacklevel=3,
        )


def emulates_bfloat16() -> bool:
    """Whether this CPU is known to lack instructions for products in bfloat16."""
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return found.get("architecture") == "x86_64" and not (found.get("avx512_bf16") or found.get("amx_bf16"))


def _optimizer_state(state: dict[str, Tensor], prefix: str) -> dict[int, dict[str, Any]]:
    memory: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            index, name = key.removeprefix(prefix).split(".", 1)
            memory.setdefault(int(index), {})[name] = value
    return memory
