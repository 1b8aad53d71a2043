"""Dictionaries of latents over token vectors: bilinear ones, and the linear baselines to set them beside."""

from quadric.autoencoders.autoencoder import Autoencoder
from quadric.autoencoders.bilinear import BilinearArchitecture, BilinearAutoencoder
from quadric.autoencoders.loading import load_pretrained
from quadric.autoencoders.objective import LossTerms
from quadric.autoencoders.provenance import Provenance
from quadric.autoencoders.tokens import unit_tokens
from quadric.autoencoders.topk import BatchTopKAutoencoder, LinearArchitecture, TopKAutoencoder

__all__ = [
    "Autoencoder",
    "BatchTopKAutoencoder",
    "BilinearArchitecture",
    "BilinearAutoencoder",
    "LinearArchitecture",
    "LossTerms",
    "Provenance",
    "TopKAutoencoder",
    "load_pretrained",
    "unit_tokens",
]
