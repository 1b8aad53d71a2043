"""Who updates what: Muon the matrices, Muon on its pattern a sparse C, AdamW the rest."""

import torch
from jaxtyping import Int
from torch import Tensor, nn

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.autoencoders.mixing import Composite
from quadric.training.muon import Muon
from quadric.training.sparse_muon import SparseMuon

VECTOR_LEARNING_RATE = 1e-3


def sparse_optimizer(
    values: nn.Parameter, mixing: Composite, learning_rate: float, momentum: float
) -> torch.optim.Optimizer:
    """What updates the values of a sparse C."""
    return SparseMuon(values, mixing.pattern, learning_rate, momentum)


class Optimizers:
    """The optimizers of one autoencoder; they follow when the storage of C changes."""

    def __init__(self, autoencoder: Autoencoder, learning_rate: float, momentum: float) -> None:
        self.autoencoder = autoencoder
        self.learning_rate, self.momentum = learning_rate, momentum
        rest = [p for p in autoencoder.parameters() if p is not self._mixing_parameter()]
        self.matrices = Muon([p for p in rest if p.ndim == 2], learning_rate, momentum)
        vectors = [p for p in rest if p.ndim != 2]
        self.vectors = torch.optim.AdamW(vectors, lr=VECTOR_LEARNING_RATE, weight_decay=0.0)
        self.mixing = self._for_mixing()

    def all(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimizer by the part that it updates."""
        parts = {"matrices": self.matrices, "vectors": self.vectors, "mixing": self.mixing}
        return {name: optimizer for name, optimizer in parts.items() if optimizer is not None}

    def step(self) -> None:
        """Update every parameter and forget its gradient."""
        for optimizer in self.all().values():
            optimizer.step()
            optimizer.zero_grad()

    def follow_mixing(self, kept: Int[Tensor, " kept"] | None) -> None:
        """Take over the parameter of C after its density was set, with the memory of the entries that stayed."""
        parameter, before = self._mixing_parameter(), self.mixing
        if parameter is None or before is None or parameter is before.param_groups[0]["params"][0]:
            return
        self.mixing = after = self._for_mixing()
        places = self._places_in_dense() if kept is None else (kept,)
        if isinstance(after, type(before) | SparseMuon):  # Muon's momentum means the same on the pattern
            for memory in before.state.values():
                after.state[parameter] = {name: v[places] if v.ndim else v for name, v in memory.items()}

    def _places_in_dense(self) -> tuple[Tensor, ...]:
        """Where the entries of a C that has just become sparse stood in the dense one."""
        assert isinstance(self.autoencoder, BilinearAutoencoder)
        assert isinstance(self.autoencoder.mixing, Composite)
        rows, columns, _ = self.autoencoder.mixing.entries()
        return rows, columns

    def _mixing_parameter(self) -> nn.Parameter | None:
        named = dict(self.autoencoder.named_parameters())
        return named.get("mixing.weight", named.get("mixing.values"))

    def _for_mixing(self) -> torch.optim.Optimizer | None:
        parameter = self._mixing_parameter()
        if parameter is None:
            return None
        if parameter.ndim == 2:
            return Muon([parameter], self.learning_rate, self.momentum)
        assert isinstance(self.autoencoder, BilinearAutoencoder)
        assert isinstance(self.autoencoder.mixing, Composite)
        return sparse_optimizer(parameter, self.autoencoder.mixing, self.learning_rate, self.momentum)
