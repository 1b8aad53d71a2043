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

from quadric.model.bilinear import BilinearArchitecture, BilinearAutoencoder, reference_loss
from quadric.model.dictionary import Autoencoder
from quadric.model.linear import (
    BatchTopKAutoencoder,
    JumpReLUAutoencoder,
    LinearArchitecture,
    LinearAutoencoder,
    ReLUAutoencoder,
    TopKAutoencoder,
)
from quadric.model.objective import LossTerms, check_tokens, unit_tokens
from quadric.model.provenance import Provenance
from quadric.model.storage import load_pretrained

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
