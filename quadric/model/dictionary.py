"""The interface of every autoencoder, bilinear or linear: encode, loss, error, density, save."""

import os
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.model.checks import check_weight
from quadric.model.objective import (
    LossSums,
    LossTerms,
    check_tokens,
    density_norms,
    hoyer_density,
    prepare_tokens,
    working_dtype,
)
from quadric.model.provenance import Provenance
from quadric.model.storage import StoredAutoencoder, write_folder
from quadric.version import __version__


class TokenErrors(NamedTuple):
    """The error per token, as reported and as trained."""

    product_space: Float[Tensor, " n"]
    """‖X̂ − X‖²/‖X‖², comparable between all autoencoders."""
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
        """Latents of tokens that are already checked and in working precision."""

    @property
    def token_length(self) -> float | None:
        """The length to which `prepare` scales tokens; None where they keep their own."""
        return 1.0

    @property
    def reads_unit_tokens(self) -> bool:
        """Whether it was trained on unit tokens, as every dictionary trained here."""
        return self.token_length == 1

    @abstractmethod
    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        """Error of each prepared token's reconstruction from its latents."""

    @abstractmethod
    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """Reconstruction of each prepared token as a vector.

        `tokens` give what latents do not determine: a sign, or a length.
        """

    def density_offset(self) -> Float[Tensor, " k"] | None:
        """Subtracted from the latents before their density is measured, if not None."""
        return None

    @property
    @abstractmethod
    def architecture(self) -> Any:
        """The frozen dataclass that, together with the tensors, rebuilds this autoencoder."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All tensors that are saved."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, architecture: Any, tensors: dict[str, Tensor]) -> "Autoencoder":
        """Rebuild an autoencoder from what `architecture` and `tensors` returned."""

    # The methods below are public. Their arguments are plain tensors because `check_tokens` and the check of the
    # mask give better messages than a type checker would.

    def encode(self, tokens: Tensor) -> Float[Tensor, "n k"]:
        """Latents of tokens as they are given; `loss`, `error` and `density` pass them through `prepare` first.

        For the latents that the dictionary was trained with, encode `prepare(activations)`.

        Args:
            tokens: activations (n, d).

        Returns:
            Signed latents (n, k).
        """
        check_tokens(tokens, self.d_model)
        return self.encode_prepared(tokens.to(working_dtype(tokens.dtype, self._dtype)))

    def loss(self, tokens: Tensor, alpha: float = 0.3, mask: Tensor | None = None) -> LossTerms:
        """Mean objective + alpha · mean density; differentiable.

        Args:
            tokens: activations (n, d).
            alpha: weight of the density penalty.
            mask: (n,) of torch.bool, True where a token counts; all by default.

        Returns:
            `LossTerms(total, error, density)`.
        """
        check_weight("alpha", alpha, "the paper uses 0.3")
        return self.loss_sums(tokens, mask).terms(alpha)

    def loss_sums(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        overlap_penalty: float = 0.0,
        top_latents: int | None = None,
        mean_penalty: float = 0.0,
    ) -> LossSums:
        """The sums that `loss` divides by the number of tokens; sums of parts of a batch can be added."""
        asked = {"overlap_penalty": overlap_penalty or None, "mean_penalty": mean_penalty or None}
        asked["top_latents"] = top_latents
        if given := [f"{name}={value}" for name, value in asked.items() if value is not None]:
            raise ValueError(f"{given[0]} needs quadratic forms; a '{self.kind}' has none")
        tokens = self.prepare(tokens, mask)
        latents = self.encode_prepared(tokens)
        if self.training:
            self.observe(latents.detach())
        errors = self.errors_of(tokens, latents)
        l1, l2_squared = density_norms(latents, self.density_offset())
        return LossSums(errors.objective.sum(), errors.product_space.sum(), l1, l2_squared, len(tokens))

    def error(self, tokens: Tensor, mask: Tensor | None = None) -> Float[Tensor, " n"]:
        """Product-space error ‖X̂ − X‖²/‖X‖² per kept token; differentiable."""
        tokens = self.prepare(tokens, mask)
        return self.errors_of(tokens, self.encode_prepared(tokens)).product_space

    def density(self, tokens: Tensor, mask: Tensor | None = None) -> Float[Tensor, " k"]:
        """Hoyer density per latent over the kept tokens."""
        return hoyer_density(self.encode_prepared(self.prepare(tokens, mask)), self.density_offset())

    @torch.no_grad()
    def rebuild(self, tokens: Tensor) -> Float[Tensor, "n d"]:
        """Reconstruction x̂ of every token at the token's own scale, to replace it in the language model."""
        prepared = self.prepare(tokens)
        norms: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=prepared.dtype)
        return self.vectors_of(prepared, self.encode_prepared(prepared)) * (norms / self.lengths_of(prepared))

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
        """What the encoder expects of activations at their own length: the kept ones, checked, in working precision.

        They are scaled to unit norm unless the dictionary was trained elsewhere on another scale.

        Args:
            tokens: activations (n, d) as the language model computes them.
            mask: (n,) of torch.bool, True where a token counts; all by default.

        Returns:
            Tokens for `encode`.
        """
        return prepare_tokens(tokens, self.d_model, self._dtype, mask, length=self.token_length)

    def lengths_of(self, prepared: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        """‖x‖ of prepared tokens: exactly the length to which `prepare` scales them, if it does."""
        if self.token_length is not None:
            return prepared.new_full((len(prepared), 1), self.token_length)
        lengths: Tensor = torch.linalg.vector_norm(prepared, dim=-1, keepdim=True)
        return lengths

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"
