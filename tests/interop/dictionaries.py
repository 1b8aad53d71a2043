"""Small dictionaries of every kind that is exported, with a place in a language model."""

import torch

from quadric.model import (
    Autoencoder,
    BatchTopKAutoencoder,
    JumpReLUAutoencoder,
    LinearAutoencoder,
    Provenance,
    ReLUAutoencoder,
    TopKAutoencoder,
)
from tests import zoo

D_MODEL = 12
PLACE = Provenance(model="owner/small", hook_point="resid_pre.3", corpus="words", block_length=32)
LINEAR: dict[str, tuple[type[LinearAutoencoder], dict[str, object]]] = {
    "topk": (TopKAutoencoder, {"n_active": 5}),
    "batch_topk": (BatchTopKAutoencoder, {"n_active": 5}),
    "relu of own length": (ReLUAutoencoder, {"input": "own", "subtract_decoder_bias": False}),
    "jumprelu of norm √d": (JumpReLUAutoencoder, {"input": "constant_norm"}),
    "topk of layer norm": (TopKAutoencoder, {"n_active": 5, "input": "layer_norm"}),
}
BILINEAR = ("atomic", "composite sparse storage", "quadratic", "atomic affine", "composite sparse affine")
AFFINE = ("atomic affine", "composite sparse affine", "quadratic affine")


def bilinear(variety: str) -> Autoencoder:
    """A bilinear autoencoder in float32."""
    autoencoder = zoo.make(variety, torch.float32)
    autoencoder.provenance = PLACE
    return autoencoder.eval()


def linear(name: str) -> LinearAutoencoder:
    """A linear dictionary whose encoder, decoder and biases are all different."""
    kind, settings = LINEAR[name]
    made = kind(d_model=D_MODEL, n_latents=20, provenance=PLACE, **settings)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
        if isinstance(made, JumpReLUAutoencoder):
            made.thresholds.uniform_(0, 0.5, generator=generator)
        if isinstance(made, BatchTopKAutoencoder):
            made.threshold.fill_(0.2)
    return made.eval()


def tokens(*shape: int) -> torch.Tensor:
    """Tokens about the centre of `zoo.affine_lens`, of very different lengths."""
    count = torch.Size(shape).numel()
    flat = zoo.tokens(count, D_MODEL, torch.float32)
    lengths = flat.norm(dim=-1, keepdim=True)
    return (flat + 1.2 * lengths * zoo.affine_lens().centre.float()).reshape(*shape, D_MODEL)
