"""Who updates what: Muon the matrices, an element-wise optimiser the values of a sparse C, AdamW the rest."""

from math import sqrt

import torch
from jaxtyping import Int
from torch import Tensor, nn

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.autoencoders.mixing import Composite
from quadric.training.muon import Muon

VECTOR_LEARNING_RATE = 1e-3


def sparse_learning_rate(learning_rate: float, mixing: Composite) -> float:
    """Muon moves an entry of a row with s entries by about lr/√s; Adam moves every entry by about lr."""
    return learning_rate / sqrt(max(1.0, mixing.n_entries / mixing.shape[0]))


def sparse_optimiser(
    values: nn.Parameter, mixing: Composite, learning_rate: float, momentum: float
) -> torch.optim.Optimizer:
    """What updates the values of a sparse C."""
    rate = sparse_learning_rate(learning_rate, mixing)
    return torch.optim.AdamW([values], lr=rate, weight_decay=0.0)


class Optimisers:
    """The optimisers of one autoencoder; they follow when the storage of C changes."""

    def __init__(self, autoencoder: Autoencoder, learning_rate: float, momentum: float) -> None:
        self.autoencoder = autoencoder
        self.learning_rate, self.momentum = learning_rate, momentum
        rest = [p for p in autoencoder.parameters() if p is not self._mixing_parameter()]
        self.matrices = Muon([p for p in rest if p.ndim == 2], learning_rate, momentum)
        vectors = [p for p in rest if p.ndim != 2]
        self.vectors = torch.optim.AdamW(vectors, lr=VECTOR_LEARNING_RATE, weight_decay=0.0)
        self.mixing = self._for_mixing()

    def all(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimiser by the part that it updates."""
        parts = {"matrices": self.matrices, "vectors": self.vectors, "mixing": self.mixing}
        return {name: optimiser for name, optimiser in parts.items() if optimiser is not None}

    def step(self) -> None:
        """Update every parameter and forget its gradient."""
        for optimiser in self.all().values():
            optimiser.step()
            optimiser.zero_grad()

    def follow_mixing(self, kept: Int[Tensor, " kept"] | None) -> None:
        """Take over the parameter of C after its density was set, with the memory of the entries that stayed."""
        parameter, before = self._mixing_parameter(), self.mixing
        if parameter is None or before is None or parameter is before.param_groups[0]["params"][0]:
            return
        self.mixing = after = self._for_mixing()
        if after is not None and kept is not None:
            for memory in before.state.values():
                after.state[parameter] = {name: v[kept] if v.ndim else v for name, v in memory.items()}

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
        return sparse_optimiser(parameter, self.autoencoder.mixing, self.learning_rate, self.momentum)
