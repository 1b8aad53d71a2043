"""A small linear dictionary with an encoder of its own, and tokens for it."""

import torch
from torch import Tensor

from quadric import BatchTopKAutoencoder, TopKAutoencoder
from quadric.geometry import Centre

D_MODEL, N_LATENTS, N_ACTIVE = 10, 14, 3


def topk(seed: int = 0) -> TopKAutoencoder:
    """Encoder and decoder differ, both have biases, and directions have different lengths."""
    return _shaken(TopKAutoencoder(d_model=D_MODEL, n_latents=N_LATENTS, n_active=N_ACTIVE, seed=seed), seed)


def batch_topk(seed: int = 0) -> BatchTopKAutoencoder:
    """The same with a threshold."""
    made = _shaken(BatchTopKAutoencoder(d_model=D_MODEL, n_latents=N_LATENTS, n_active=N_ACTIVE, seed=seed), seed)
    made.threshold.fill_(0.1)
    return made


def _shaken(made, seed):
    generator = torch.Generator().manual_seed(seed + 100)
    with torch.no_grad():
        for tensor, size in ((made.encoder, 0.3), (made.decoder, 0.3), (made.encoder_bias, 0.1)):
            tensor += size * torch.randn(tensor.shape, generator=generator)
        made.decoder_bias += 0.2
    return made.eval()


def tokens(n: int = 400, seed: int = 5) -> Tensor:
    """Activations with a mean and a few strong directions."""
    generator = torch.Generator().manual_seed(seed)
    scales = torch.linspace(2, 0.5, D_MODEL)
    return 1.0 + scales * torch.randn(n, D_MODEL, generator=generator)


def centre_of(x: Tensor) -> Centre:
    """Mean and covariance of the unit tokens."""
    unit = torch.nn.functional.normalize(x, dim=1)
    return Centre(unit.mean(0), torch.cov(unit.mT, correction=0))
