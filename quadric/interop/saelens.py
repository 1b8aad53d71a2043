"""Bilinear dictionaries in SAELens 6: importing this module registers the architecture "quadric".

    import quadric.interop.saelens
    sae = sae_lens.SAE.load_from_disk(folder)      # a folder of quadric.export(..., to="saelens")

Encoding is that of the dictionary, on tokens of unit norm: signed latents z_i, none of them cut off at zero. Decoding
gives a vector of the token's own length, which `encode` keeps for the next `decode`, as SAELens does for
`constant_norm_rescale`. With an affine lens it is linear, û = z @ W_dec + b_dec; without a lens it is √λ₁v₁ of X̂, with
the sign of the token that was encoded, and there is no W_dec.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from sae_lens import SAE, SAEConfig, register_sae_class
from sae_lens.saes.sae import SAEMetadata
from torch import Tensor, nn

from quadric.interop.carried import Carried, check_carried, decode, encode
from quadric.interop.saelens_format import ARCHITECTURE, tensor_shapes
from quadric.interop.saelens_format import INTEGERS as INDICES
from quadric.model import Dictionary
from quadric.model.storage import Described, described

LARGEST_INDEX = {torch.float64: 2**53, torch.float32: 2**24, torch.float16: 2**11, torch.bfloat16: 2**8}
"""Up to here, every integer is exact."""
REMEDY = "call encode on the tokens first, or decode_unit for the direction alone"


@dataclass
class QuadricSAEConfig(SAEConfig):
    """Config of a bilinear dictionary."""

    metadata: Any = field(default_factory=SAEMetadata)  # SAELens first passes a dict, then sets an SAEMetadata
    quadric: dict[str, Any] = field(default_factory=dict)
    """What `quadric.model.storage.description` gives, and the shapes of all tensors."""

    @classmethod
    def architecture(cls) -> str:
        return ARCHITECTURE

    def described(self) -> Described:
        """The dictionary but for its tensors, checked."""
        return described(self.quadric, "quadric in cfg.json")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor."""
        return tensor_shapes(self.quadric, "quadric in cfg.json")


class QuadricSAE(SAE[QuadricSAEConfig]):
    """A bilinear dictionary, for inference.

    Its tensors are buffers under the names that Quadric saves them by. Gradients flow to the input, and with an affine
    lens through `decode`; the weights are fixed.
    """

    def initialize_weights(self) -> None:
        for name, shape in self.cfg.shapes().items():
            dtype = torch.int64 if name in INDICES else self.dtype
            empty = torch.zeros if name in INDICES else torch.empty
            self.register_buffer(name, empty(shape, dtype=dtype, device=self.device))
        if "lens_centre" in self.cfg.shapes():
            self.W_dec = nn.Parameter(torch.empty(self.cfg.d_sae, self.cfg.d_in, dtype=self.dtype, device=self.device))
            self.b_dec = nn.Parameter(torch.empty(self.cfg.d_in, dtype=self.dtype, device=self.device))
        self._carried: Carried | None = None
        self._dictionary: list[Dictionary] = []  # a list, so that torch does not see a submodule

    def encode(self, x: Tensor) -> Tensor:
        tokens = self.hook_sae_input(self.reshape_fn_in(x.to(self.dtype)))
        latents, self._carried = encode(self.dictionary(), tokens)
        return self.hook_sae_acts_post(self.hook_sae_acts_pre(latents.to(self.dtype)))

    def decode(self, feature_acts: Tensor) -> Tensor:
        carried, self._carried = check_carried(self._carried, feature_acts, REMEDY), None
        if carried.prepared is None:
            unit = self.decode_unit(feature_acts)
        else:
            at_unit_length = carried._replace(lengths=torch.ones_like(carried.lengths))
            unit = decode(self.dictionary(), feature_acts, at_unit_length).to(self.dtype)
        lengths = carried.lengths.reshape(*carried.shape, 1).to(self.dtype)
        return self.reshape_fn_out(self.hook_sae_recons(unit) * lengths, self.d_head)

    def decode_unit(self, feature_acts: Tensor) -> Tensor:
        """û, the reconstruction of the unit token: what the latents determine alone. Affine lens only."""
        if not hasattr(self, "W_dec"):
            raise ValueError("without a lens, latents do not determine the sign of a token; encode it, then decode")
        return feature_acts @ self.W_dec + self.b_dec

    def dictionary(self) -> Dictionary:
        """The same weights as an autoencoder of Quadric, for its geometry and interventions."""
        if not self._dictionary:
            made = self.cfg.described().with_tensors({name: getattr(self, name) for name in self.cfg.shapes()})
            self._dictionary.append(made.eval().requires_grad_(False))
        return self._dictionary[0]

    def process_state_dict_for_loading(self, state_dict: dict[str, Any]) -> None:
        """Give integers back their type, which SAELens's loader took from them."""
        for name in INDICES:
            if name in state_dict:
                largest = 0 if name == "lens_n_tokens" else self.cfg.shapes()["left"][0]  # a count may be rounded
                state_dict[name] = _integers(state_dict[name], largest)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._dictionary.clear()
        return super().load_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self._dictionary.clear()  # tensors move to another device or precision
        return super()._apply(*args, **kwargs)

    def fold_W_dec_norm(self) -> NoReturn:  # noqa: N802  (SAELens's name)
        raise NotImplementedError("the norm of a quadratic latent's form cannot be folded into W_enc; it has none")

    def __getattr__(self, name: str) -> Any:
        if name in ("W_enc", "b_enc"):
            raise AttributeError(f"a quadratic latent has no {name}: z = xᵀWx; see sae.dictionary().form(i)")
        if name == "W_dec" and name not in self._parameters:
            raise AttributeError("a dictionary without a lens has no W_dec: its decoder is not linear; use decode")
        return super().__getattr__(name)


def _integers(values: Tensor, largest: int) -> Tensor:
    if largest > LARGEST_INDEX.get(values.dtype, 2**53):
        raise ValueError(
            f"indices up to {largest} were read as {values.dtype}, which rounds them; load with dtype='float32', then "
            f"sae.to({values.dtype})"
        )
    return values.long()


register_sae_class(ARCHITECTURE, QuadricSAE, QuadricSAEConfig)
