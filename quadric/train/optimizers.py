"""Which optimizer updates which parameters, and Muon.

    L, R and dense C   Muon
    sparse C           SparseMuon
    offsets, biases    AdamW

Muon orthogonalizes the momentum X of a matrix with the Newton–Schulz rounds X ← aX + b(XXᵀ)X + c(XXᵀ)²X, as
torch.optim.Muon does. `model/fast/newton_schulz.py` has the same rounds on small Gram matrices, and on the entries of a
sparse matrix alone. With gradients in bfloat16, those of a dense C, which is not tall, are computed in bfloat16 here.
"""

from collections.abc import Iterable
from functools import partial
from math import sqrt
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.model import Dictionary
from quadric.model.dictionary import Group, Moved
from quadric.train.distributed import computed_once, current_processes
from quadric.train.settings import Training

if TYPE_CHECKING:
    from quadric.model.fast.products import CsrPattern

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
TINY = 1e-7
VECTOR_LEARNING_RATE = 1e-3


def fast_rounds() -> ModuleType | None:
    """The fast forms of `orthogonalized`, where the package has them."""
    try:
        from quadric.model.fast import newton_schulz
    except ModuleNotFoundError:
        return None
    return newton_schulz


class Optimizers:
    """The optimizers of one dictionary, one for each of its groups of parameters."""

    def __init__(self, dictionary: Dictionary, training: Training) -> None:
        self.dictionary, self.training = dictionary, training
        self.parts = {group.name: self._optimizer(group) for group in dictionary.parameter_groups() if group.parameters}
        """Every optimizer by the name of the group that it updates."""

    def step(self, decay: float = 1.0) -> None:
        """Update every parameter, with its learning rate times `decay`, and clear its gradient."""
        for name, optimizer in self.parts.items():
            for group in optimizer.param_groups:
                group["lr"] = decay * (VECTOR_LEARNING_RATE if name == "vectors" else self.training.rate)
            optimizer.step()
            optimizer.zero_grad()

    def follow(self, moved: Moved) -> None:
        """Optimize the parameter that took another's place, with the momentum of the entries that stayed."""
        for group in self.dictionary.parameter_groups():
            if any(each is moved.after for each in group.parameters):
                before, after = self.parts[group.name], self._optimizer(group)
                if isinstance(after, type(before) | SparseMuon):  # Muon's momentum has the same meaning on the entries
                    memory = before.state.get(moved.before, {})
                    if memory:
                        after.state[moved.after] = {
                            name: value[moved.positions] if value.ndim else value for name, value in memory.items()
                        }
                self.parts[group.name] = after

    def _optimizer(self, group: Group) -> torch.optim.Optimizer:
        rate, momentum = self.training.rate, self.training.momentum
        if group.name == "vectors":
            return torch.optim.AdamW(group.parameters, lr=VECTOR_LEARNING_RATE, weight_decay=0.0)
        if group.pattern is not None:
            return SparseMuon(group.parameters[0], group.pattern, rate, momentum)
        is_rounded = group.name == "mixing" and self.training.gradient_dtype == "bfloat16"
        return Muon(group.parameters, rate, momentum, is_rounded)


class Muon(torch.optim.Optimizer):
    """Orthogonalized momentum: torch.optim.Muon with adjust_lr_fn="original" and without weight decay.

    Args:
        parameters: matrices.
        lr: learning rate.
        momentum: of the gradients.
        is_rounded: run the rounds on the whole matrix in bfloat16, as torch.optim.Muon does; faster on hardware that
            has it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float,
        is_rounded: bool = False,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        self.is_rounded = is_rounded

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            momenta = (nesterov_momentum(self.state[each], each.grad, group["momentum"]) for each in trained)
            for parameter, direction in zip(trained, self._directions(trained, momenta), strict=True):
                rows, columns = self._shape(parameter)
                parameter.sub_(direction.to(parameter.dtype), alpha=group["lr"] * sqrt(max(1, rows / columns)))

    def _directions(self, trained: list[nn.Parameter], momenta: Iterable[Tensor]) -> Iterable[Tensor]:
        """The orthogonalized momenta, the same bits on every process.

        Several processes orthogonalize a single large matrix together; others are orthogonalized by one process each.
        """
        fast, here = fast_rounds(), current_processes()
        if self.is_rounded or fast is None:
            return computed_once(partial(orthogonalized, is_rounded=self.is_rounded), momenta)
        if here.world_size > 1 and len(trained) == 1 and fast.is_shared(trained[0].shape):
            return map(partial(fast.orthogonalized, share=fast.Share(*here)), momenta)
        return computed_once(fast.orthogonalized, momenta)

    def _shape(self, parameter: nn.Parameter) -> tuple[int, int]:
        return parameter.shape[0], parameter.shape[1]


class SparseMuon(Muon):
    """Muon for the entries of one sparse matrix, in row order."""

    def __init__(self, values: nn.Parameter, pattern: "CsrPattern", lr: float, momentum: float) -> None:
        from quadric.model.fast.newton_schulz import OnPattern

        super().__init__([values], lr, momentum)
        self.orthogonalized = OnPattern(pattern)

    def _directions(self, trained: list[nn.Parameter], momenta: Iterable[Tensor]) -> Iterable[Tensor]:
        return map(self.orthogonalized, momenta)

    def _shape(self, parameter: nn.Parameter) -> tuple[int, int]:
        return self.orthogonalized.pattern.shape


def nesterov_momentum(state: dict[str, Tensor], grad: Float[Tensor, "*s"], momentum: float) -> Float[Tensor, "*s"]:
    """The momentum after this gradient with Nesterov's look-ahead, at least in float32."""
    if not state:
        state["momentum_buffer"] = torch.zeros_like(grad)
    buffer = state["momentum_buffer"]
    buffer.lerp_(grad, 1 - momentum)
    ahead = grad.lerp(buffer, momentum)
    return ahead.to(torch.promote_types(ahead.dtype, torch.float32))


def orthogonalized(matrix: Float[Tensor, "m n"], is_rounded: bool = False) -> Float[Tensor, "m n"]:
    """The matrix with its singular values moved close to 1: US'Vᵀ with S' ≈ 1 for USVᵀ; rounds may be in bfloat16."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalized(matrix.mT, is_rounded).mT
    norm: Tensor = torch.linalg.matrix_norm(matrix)
    wide = matrix / norm.clamp(min=TINY)
    wide = wide.bfloat16() if is_rounded else wide
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = wide @ wide.mT
        factor = (gram @ gram).mul_(c).add_(gram, alpha=b)
        wide = torch.addmm(wide, factor, wide, beta=a)
    return wide.to(matrix.dtype)
