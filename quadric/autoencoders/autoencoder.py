"""What every autoencoder answers, bilinear or linear: encode, loss, error, density, save."""

import math
import os
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.autoencoders.io import StoredAutoencoder, write_folder
from quadric.autoencoders.objective import LossSums, LossTerms, density_norms, hoyer_density
from quadric.autoencoders.provenance import Provenance
from quadric.autoencoders.tokens import check_tokens, unit_tokens
from quadric.version import __version__


class TokenErrors(NamedTuple):
    """The error of every token, as it is reported and as it is trained."""

    product_space: Float[Tensor, " n"]
    """‖X̂ − X‖²/‖X‖², the same question for every autoencoder."""
    objective: Float[Tensor, " n"]
    """What training minimizes, apart from density."""


class Autoencoder(nn.Module, ABC):
    """A dictionary of latents over token vectors of width `d_model`, measured in the product space."""

    kind: ClassVar[str]
    d_model: int
    n_latents: int
    provenance: Provenance

    @abstractmethod
    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Latents of tokens that are known to be valid and in working precision."""

    @abstractmethod
    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        """How badly each unit token is rebuilt from its latents."""

    @abstractmethod
    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """What each unit token is rebuilt as, as a vector; `tokens` may decide what latents cannot, a sign."""

    def density_offset(self) -> Float[Tensor, " k"] | None:
        """What is taken off the latents before their density is measured, if anything."""
        return None

    @property
    @abstractmethod
    def architecture(self) -> Any:
        """The frozen dataclass that, with the tensors, makes this autoencoder again."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything that is saved."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, architecture: Any, tensors: dict[str, Tensor]) -> "Autoencoder":
        """The autoencoder that `tensors` was read from."""

    # The methods below are what users call. Their arguments are plain tensors because `check_tokens` and
    # `_check_mask` say more about a wrong one than a type checker would.

    def encode(self, tokens: Tensor) -> Float[Tensor, "n k"]:
        """Latents (n, k) of tokens (n, d) as they are; `loss`, `error` and `density` scale to unit norm first."""
        check_tokens(tokens, self.d_model)
        return self.encode_prepared(tokens.to(self._working_dtype(tokens)))

    def loss(self, tokens: Tensor, alpha: float = 0.3, mask: Tensor | None = None) -> LossTerms:
        """Objective + alpha · density over the tokens (n, d) that the mask (n,) keeps; differentiable."""
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha={alpha} is not a finite number ≥ 0; the paper uses 0.3")
        return self.loss_sums(tokens, mask).terms(alpha)

    def loss_sums(self, tokens: Tensor, mask: Tensor | None = None) -> LossSums:
        """What `loss` is made of, before it is divided by the number of tokens: add it up over parts of a batch."""
        tokens = self.prepare(tokens, mask)
        latents = self.encode_prepared(tokens)
        if self.training:
            self.observe(latents.detach())
        errors = self.errors_of(tokens, latents)
        l1, l2_squared = density_norms(latents, self.density_offset())
        return LossSums(errors.objective.sum(), errors.product_space.sum(), l1, l2_squared, len(tokens))

    def error(self, tokens: Tensor, mask: Tensor | None = None) -> Float[Tensor, " n"]:
        """Product-space error of every kept token, ‖X̂ − X‖²/‖X‖²."""
        tokens = self.prepare(tokens, mask)
        return self.errors_of(tokens, self.encode_prepared(tokens)).product_space

    def density(self, tokens: Tensor, mask: Tensor | None = None) -> Float[Tensor, " k"]:
        """Hoyer density of every latent over the kept tokens."""
        return hoyer_density(self.encode_prepared(self.prepare(tokens, mask)), self.density_offset())

    @torch.no_grad()
    def rebuild(self, tokens: Tensor) -> Float[Tensor, "n d"]:
        """x̂ of every token, at the token's own length: what to put in its place in the language model."""
        unit = self.prepare(tokens)
        norms: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=unit.dtype)
        return self.vectors_of(unit, self.encode_prepared(unit)) * norms

    def observe(self, latents: Float[Tensor, "n k"]) -> None:
        """Called with the latents of every training batch."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write config.json and weights into the folder; `quadric.load` reads them."""
        stored = StoredAutoencoder(
            kind=self.kind,
            architecture=asdict(self.architecture),
            provenance=self.provenance,
            tensors={name: tensor.detach() for name, tensor in self.tensors().items()},
        )
        write_folder(folder, stored, __version__)

    def prepare(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The kept tokens, checked, at unit norm and in working precision."""
        if mask is not None:
            tokens = tokens[_check_mask(mask, tokens)]
        check_tokens(tokens, self.d_model)
        return unit_tokens(tokens).to(self._working_dtype(tokens))

    def _working_dtype(self, tokens: Tensor) -> torch.dtype:
        """At least float32: the cancellation in zᵀKz − 2‖z‖² + 1 is lost in bfloat16."""
        stored = next(self.parameters()).dtype
        return torch.promote_types(torch.promote_types(stored, tokens.dtype), torch.float32)


def _check_mask(mask: Tensor, tokens: Tensor) -> Tensor:
    if mask.dtype != torch.bool or mask.shape != tokens.shape[:1]:
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; expected torch.bool of shape "
            f"{tuple(tokens.shape[:1])}, True where a token counts"
        )
    return mask
