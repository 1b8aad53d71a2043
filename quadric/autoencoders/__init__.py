"""Dictionaries of latents over token vectors: bilinear autoencoders, and linear baselines to compare them with.

bilinear   the model, and its loss in fifteen lines of plain autograd (`reference_loss`)
mixing     the matrix C from atoms to latents: identity, dense, masked or sparse
topk       the linear dictionaries
scaling    what the encoder of a linear dictionary reads of a token
objective  unit tokens, error and density as pure functions
kernels    fast exact forms of the same mathematics
rank_one   from the reconstruction X̂ back to a vector
io         saving and loading
"""

from quadric.autoencoders.autoencoder import Autoencoder
from quadric.autoencoders.bilinear import BilinearArchitecture, BilinearAutoencoder, reference_loss
from quadric.autoencoders.io import load_pretrained
from quadric.autoencoders.objective import LossTerms, check_tokens, unit_tokens
from quadric.autoencoders.provenance import Provenance
from quadric.autoencoders.topk import (
    BatchTopKAutoencoder,
    JumpReLUAutoencoder,
    LinearArchitecture,
    LinearAutoencoder,
    ReLUAutoencoder,
    TopKAutoencoder,
)

__all__ = [
    "Autoencoder",
    "BatchTopKAutoencoder",
    "BilinearArchitecture",
    "BilinearAutoencoder",
    "JumpReLUAutoencoder",
    "LinearArchitecture",
    "LinearAutoencoder",
    "LossTerms",
    "Provenance",
    "ReLUAutoencoder",
    "TopKAutoencoder",
    "check_tokens",
    "load_pretrained",
    "reference_loss",
    "unit_tokens",
]
