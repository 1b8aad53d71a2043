"""Linear dictionaries, measured in the product space: TopK (the paper's) and BatchTopK, which are trained here on
squared error, and ReLU and JumpReLU, which are trained elsewhere.

z = keep(ReLU(W_enc (x − b_dec) + b_enc)),    x̂ = W_decᵀ z + b_dec

x is the unit token for dictionaries trained here. Those trained elsewhere were trained on another `input`:

    unit           x/‖x‖, as every dictionary trained here
    own            x
    constant_norm  x · √d/‖x‖
    layer_norm     (x − mean of x) / (standard deviation of x + 1e-5), both over the d entries of the token

`prepare` sets the length of a token. Layer norm also takes out a mean, without which the token cannot be compared with
its reconstruction; therefore it is a part of encoding, and the reconstruction gets the mean and the standard deviation
of the token back. Some dictionaries do not subtract b_dec.
"""

from abc import abstractmethod
from math import sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.model.dictionary import Autoencoder
from quadric.model.forms import Directions
from quadric.model.provenance import Provenance
from quadric.model.settings import BatchTopK, Input, JumpReLU, Linear, ReLU, TopK, settings_or_keywords
from quadric.model.step import Step

THRESHOLD_MEMORY = 0.99
LAYER_NORM_EPSILON = 1e-5
"""SAELens's. It is added to the standard deviation, not to the variance, and left out on the way back."""


class LinearAutoencoder(Autoencoder):
    """Base class: an encoder, a decoder, and the exact error in the product space.

    Args:
        settings: of its kind; or leave it out and give fields of it as keywords, such as `n_latents` and `n_active`.
        d_model: width of the token vectors.
        seed: of the initial weights.
        provenance: where the activations come from.
        device: of the parameters.
        dtype: of the parameters.
        keywords: fields of the settings.
    """

    settings_class: ClassVar[type[Linear]]
    settings: Linear

    def __init__(
        self,
        settings: Linear | None = None,
        *,
        d_model: int,
        seed: int = 0,
        provenance: Provenance | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        **keywords: Any,
    ) -> None:
        settings = settings_or_keywords(Linear, settings, keywords, self.settings_class)
        super().__init__(settings, d_model, seed=seed, provenance=provenance)
        self._register(self._initial_tensors())
        self.to(device=device, dtype=dtype)

    @property
    def input(self) -> Input:
        return self.settings.input

    @property
    def subtract_decoder_bias(self) -> bool:
        return self.settings.subtract_decoder_bias

    @property
    def n_active(self) -> int | None:
        """Latents that fire per token: exactly (TopK) or on average (BatchTopK); None where no number is set."""
        return getattr(self.settings, "n_active", None)

    def _initial_tensors(self) -> dict[str, Tensor]:
        """Random unit directions, the same for encoder and decoder, without biases."""
        generator = torch.Generator().manual_seed(self.seed)
        directions = torch.randn(self.n_latents, self.d_model, generator=generator)
        directions /= torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
        biases = {"encoder_bias": torch.zeros(self.n_latents), "decoder_bias": torch.zeros(self.d_model)}
        return {"encoder": directions.clone(), "decoder": directions} | biases

    def _register(self, tensors: dict[str, Tensor]) -> None:
        self.encoder = nn.Parameter(tensors["encoder"])
        self.decoder = nn.Parameter(tensors["decoder"])
        self.encoder_bias = nn.Parameter(tensors["encoder_bias"])
        self.decoder_bias = nn.Parameter(tensors["decoder_bias"])

    @property
    def token_length(self) -> float | None:
        return length_of_tokens(self.input, self.d_model)

    @abstractmethod
    def keep(self, activations: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """The activations with those that do not fire set to zero."""

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        dtype = tokens.dtype
        read = encoder_input(self.input, tokens)
        if self.subtract_decoder_bias:
            read = read - self.decoder_bias.to(dtype)
        return self.keep(torch.relu(read @ self.encoder.to(dtype).mT + self.encoder_bias.to(dtype)))

    def decode(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """The reconstruction of what the encoder read; `vectors_of` brings it back to the token's scale."""
        return latents @ self.decoder.to(latents.dtype) + self.decoder_bias.to(latents.dtype)

    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        return at_token_scale(self.input, tokens, self.decode(latents))

    def forms(self) -> Directions:
        return Directions(
            reads=self.encoder,
            constants=self.encoder_bias,
            writes=self.decoder,
            bias=self.decoder_bias,
            subtracts_bias=self.subtract_decoder_bias,
            input=self.input,
            n_active=self.n_active,
        )

    def tensors(self) -> dict[str, Tensor]:
        return {
            "encoder": self.encoder,
            "decoder": self.decoder,
            "encoder_bias": self.encoder_bias,
            "decoder_bias": self.decoder_bias,
        }

    def extra_repr(self) -> str:
        active = "" if self.n_active is None else f", n_active={self.n_active}"
        read = "" if self.reads_unit_tokens else f", input={self.input!r}"
        return f"d_model={self.d_model}, n_latents={self.n_latents}{active}{read}"


class TopKAutoencoder(LinearAutoencoder):
    """A linear dictionary that keeps the `n_active` strongest latents of every token: the usual sparse autoencoder.

    `LinearAutoencoder` lists the arguments.

    Example:
        >>> autoencoder = quadric.TopKAutoencoder(d_model=8, n_latents=32, n_active=4)
        >>> int((autoencoder.encode(torch.randn(1, 8)) > 0).sum()) <= 4
        True
    """

    settings_class = TopK

    def keep(self, activations: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        assert self.n_active is not None
        values, indices = activations.topk(self.n_active, dim=-1)
        return torch.zeros_like(activations).scatter(-1, indices, values)


class BatchTopKAutoencoder(LinearAutoencoder):
    """Keeps the n · `n_active` strongest activations of a training batch; in eval mode, those above a threshold.

    The threshold is the running mean of the weakest activation kept in training batches, so that in eval mode a
    token's latents do not depend on the other tokens of its batch.

    `LinearAutoencoder` lists the arguments.

    Example:
        >>> autoencoder = quadric.BatchTopKAutoencoder(d_model=8, n_latents=32, n_active=4).train()
        >>> int((autoencoder.encode(torch.randn(10, 8)) > 0).sum()) <= 40
        True
    """

    settings_class = BatchTopK
    threshold: Tensor

    def _register(self, tensors: dict[str, Tensor]) -> None:
        super()._register(tensors)
        self.register_buffer("threshold", tensors.get("threshold", torch.tensor(float("nan"))))

    def keep(self, activations: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        if self.training:
            assert self.n_active is not None
            flat = activations.flatten()
            values, indices = flat.topk(len(activations) * self.n_active)
            return torch.zeros_like(flat).scatter(0, indices, values).view_as(activations)
        if self.threshold.isnan():
            raise ValueError("this BatchTopK has no threshold yet; train it with quadric.fit, or call .train() first")
        return activations * (activations >= self.threshold)

    @torch.no_grad()
    def after_step(self, step: Step) -> None:
        latents = step.z
        if not latents.any():
            return
        weakest = latents[latents > 0].min().to(self.threshold.dtype)
        known = ~self.threshold.isnan()
        self.threshold.copy_(torch.where(known, self.threshold.lerp(weakest, 1 - THRESHOLD_MEMORY), weakest))

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"threshold": self.threshold}


class ReLUAutoencoder(LinearAutoencoder):
    """Keeps every positive latent: the standard sparse autoencoder, trained elsewhere with a penalty on its latents.

    `LinearAutoencoder` lists the arguments; `quadric.linear_dictionary` makes one from tensors.

    Example:
        >>> weights = torch.randn(64, 32)
        >>> relu = quadric.linear_dictionary(encoder=weights, decoder=weights)
        >>> relu
        ReLUAutoencoder(d_model=32, n_latents=64, input='own')
        >>> relu.encode(x).shape
        torch.Size([2000, 64])
    """

    settings_class = ReLU

    def keep(self, activations: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        return activations


class JumpReLUAutoencoder(LinearAutoencoder):
    """Keeps every latent above its own threshold; SAELens saves its BatchTopK dictionaries as this, too.

    `LinearAutoencoder` lists the arguments; `quadric.linear_dictionary` makes one from tensors.

    Example:
        >>> weights = torch.randn(64, 32)
        >>> quadric.linear_dictionary(encoder=weights, decoder=weights, threshold=0.5)
        JumpReLUAutoencoder(d_model=32, n_latents=64, input='own')
    """

    settings_class = JumpReLU
    thresholds: Tensor

    def _initial_tensors(self) -> dict[str, Tensor]:
        return super()._initial_tensors() | {"thresholds": torch.zeros(self.n_latents)}

    def _register(self, tensors: dict[str, Tensor]) -> None:
        super()._register(tensors)
        self.register_buffer("thresholds", tensors["thresholds"])

    def keep(self, activations: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        return activations * (activations > self.thresholds.to(activations.dtype))

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"thresholds": self.thresholds}


CLASSES: dict[type[Linear], type[LinearAutoencoder]] = {
    each.settings_class: each for each in (TopKAutoencoder, BatchTopKAutoencoder, ReLUAutoencoder, JumpReLUAutoencoder)
}
"""The dictionary of every linear kind."""


def class_of(settings: Linear) -> type[LinearAutoencoder]:
    """The dictionary of these settings, which may extend those of one of our kinds."""
    return next(CLASSES[each] for each in type(settings).__mro__ if each in CLASSES)


def length_of_tokens(kind: Input, d_model: int) -> float | None:
    """The length to which tokens are scaled; None where they keep their own."""
    return {"unit": 1.0, "constant_norm": sqrt(d_model)}.get(kind)


def encoder_input(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Prepared tokens as the encoder reads them."""
    if kind == "layer_norm":
        centred = tokens - tokens.mean(-1, keepdim=True)
        return centred / (centred.std(-1, keepdim=True) + LAYER_NORM_EPSILON)
    return tokens


def at_token_scale(
    kind: Input, tokens: Float[Tensor, "n d"], reconstruction: Float[Tensor, "n d"]
) -> Float[Tensor, "n d"]:
    """Reconstructions of `encoder_input(kind, tokens)` as reconstructions of the prepared tokens."""
    if kind == "layer_norm":
        return reconstruction * token_scale(kind, tokens) + tokens.mean(-1, keepdim=True)
    return reconstruction * token_scale(kind, tokens)


def token_scale(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """How long a step of length 1 in what the encoder reads is in the prepared token; exactly 1 but for layer norm."""
    return tokens.std(-1, keepdim=True) if kind == "layer_norm" else tokens.new_ones(len(tokens), 1)
