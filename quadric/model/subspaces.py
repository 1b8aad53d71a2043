"""A dictionary of subspaces: each latent is a small subspace, chosen by its energy and decoded linearly.

Block i holds r rows P_i and reads the centred unit token v = x/‖x‖ − μ:

    z_i = ‖P_i v‖² = vᵀP_iᵀP_i v,    x̂ = μ + Σ_{i fires} P_iᵀP_i v.

z_i is a semidefinite form of rank r, the paper's ellipsoid. The m blocks of largest z fire. The decoding is linear in
P_i v, not in z_i, so that sign and place inside a block are kept: a circle fits into one latent. For the same reason
latents alone do not determine a token's reconstruction; its place inside each block is read off the token.
"""

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from quadric.model.devices import Rows
from quadric.model.dictionary import Autoencoder
from quadric.model.forms import Forms
from quadric.model.lens import AffineLens, Lens
from quadric.model.mixing import Entries, mixing_from_entries
from quadric.model.provenance import Provenance
from quadric.model.settings import Subspaces
from quadric.model.step import Step
from quadric.model.storage import check_shapes


class SubspaceAutoencoder(Autoencoder):
    """A dictionary whose latents are small subspaces.

    Args:
        settings: `quadric.Subspaces(…)`.
        d_model: width of the token vectors.
        lens: its centre is subtracted from unit tokens; by default one that training estimates.
        seed: of the initial weights.
        provenance: where the activations come from.
        rows: P, weights to use instead of initial ones.

    Example:
        >>> planes = quadric.Subspaces(n_latents=16, rank=2, n_active=3).build(8)
        >>> planes.rows.shape
        torch.Size([32, 8])
    """

    settings: Subspaces

    def __init__(
        self,
        settings: Subspaces,
        d_model: int,
        *,
        lens: Lens | None = None,
        seed: int = 0,
        provenance: Provenance | None = None,
        rows: Float[Tensor, "kr d"] | None = None,
    ) -> None:
        super().__init__(settings, d_model, seed=seed, provenance=provenance)
        if settings.rank > d_model:
            raise ValueError(f"rank={settings.rank} exceeds d_model={d_model}; give at most the width of the tokens")
        if lens is not None and lens.kind != "affine":
            raise ValueError(f"subspaces are of centred tokens, and lens={lens.kind!r} has no centre; leave it out")
        self.lens = AffineLens.unknown(d_model) if lens is None else lens
        initial = orthogonal_rows(settings.n_latents * settings.rank, d_model, seed) if rows is None else rows
        self.rows = nn.Parameter(initial)

    @classmethod
    def from_tensors(
        cls, settings: Any, d_model: int, tensors: dict[str, Tensor], *, seed: int = 0
    ) -> "SubspaceAutoencoder":
        """Rebuild a dictionary from its settings and what `tensors` returned."""
        lens = {name: tuple(value.shape) for name, value in AffineLens.unknown(d_model).tensors().items()}
        check_shapes(tensors, {"rows": (settings.n_latents * settings.rank, d_model)} | lens)
        return cls(settings, d_model, lens=AffineLens.from_tensors(tensors), seed=seed, rows=tensors["rows"])

    def tensors(self) -> dict[str, Tensor]:
        return {"rows": self.rows} | self.lens.tensors()

    @property
    def centre(self) -> Float[Tensor, " d"]:
        """μ."""
        assert self.lens.centre is not None
        return self.lens.centre

    def centred(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """v of unit tokens."""
        return tokens - self.centre.to(tokens)

    def coordinates(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k r"]:
        """P_i v of unit tokens: their place in every block."""
        flat = self.centred(tokens) @ self.rows.to(tokens.dtype).mT
        return flat.view(len(tokens), -1, self.settings.rank)

    def fires(self, energies: Float[Tensor, "n k"]) -> Bool[Tensor, "n k"]:
        """Whether a block is among the strongest of its token."""
        weakest = energies.detach().topk(self.settings.n_active, dim=1).values[:, -1:]
        return energies >= weakest

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        energies = self.coordinates(tokens).square().sum(-1)
        return energies * self.fires(energies)

    def encode(self, tokens: Rows) -> Float[Tensor, "n k"]:
        """z of the blocks that fire, and 0 of the others; of unit tokens, whatever the length of those given.

        Args:
            tokens: activations (n, d).

        Returns:
            Latents (n, k), none of them negative.
        """
        return self.encode_prepared(self.prepare(tokens))

    def rebuilt(self, coordinates: Float[Tensor, "n k r"]) -> Float[Tensor, "n d"]:
        """x̂ = μ + Σ P_iᵀy_i of unit tokens."""
        return coordinates.flatten(1) @ self.rows.to(coordinates.dtype) + self.centre.to(coordinates)

    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """x̂ of unit tokens, each block's share scaled so that its energy is the given latent."""
        coordinates = self.coordinates(tokens)
        energies = coordinates.square().sum(-1)
        scale = (latents.clamp(min=0) / energies.clamp(min=torch.finfo(energies.dtype).tiny)).sqrt()
        return self.rebuilt(coordinates * scale[..., None])

    def step(self, batch: Tensor, loss: Any = (), **options: Any) -> Step:
        return SubspaceStep(self, batch, loss=loss, **options)

    def forms(self) -> Forms:
        """P_iᵀP_i in the coordinates [v; c] of the lens."""
        k, r = self.n_latents, self.settings.rank
        rows = torch.nn.functional.pad(self.rows, (0, 1))
        atoms = torch.arange(k * r, device=rows.device)
        entries = Entries(atoms // r, atoms, torch.ones(k * r, device=rows.device, dtype=rows.dtype))
        return Forms(rows, rows, mixing_from_entries(entries, (k, k * r)), self.lens)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.settings.rank}, n_active={self.settings.n_active}"


class SubspaceStep(Step):
    """One batch, with coordinates computed once and gradients that flow through the decoding alone."""

    dictionary: SubspaceAutoencoder

    @cached_property
    def coordinates(self) -> Float[Tensor, "n k r"]:
        """P_i v of every block."""
        return self.dictionary.coordinates(self.prepared)

    @cached_property
    def z(self) -> Float[Tensor, "n k"]:
        energies = self.coordinates.square().sum(-1)
        return energies * self.dictionary.fires(energies)

    @cached_property
    def reconstruction(self) -> Float[Tensor, "n d"]:
        return self.dictionary.rebuilt(self.coordinates * (self.z.detach() > 0)[..., None])


def orthogonal_rows(n_rows: int, width: int, seed: int) -> Float[Tensor, "n_rows width"]:
    """Rows of random rotations, one rotation after the other, so that those of one block are orthonormal."""
    generator = torch.Generator().manual_seed(seed)
    rotations = [torch.linalg.qr(torch.randn(width, width, generator=generator)).Q for _ in range(-(-n_rows // width))]
    return torch.cat(rotations)[:n_rows]
