"""The mathematics written out: d×d matrices, no kernel trick. Slow, obvious, and what everything is tested against."""

import torch
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.autoencoders.mixing import Dense, Identity, Sparse


def mixing_matrix(ae: BilinearAutoencoder) -> Tensor:
    """C as a dense matrix, differentiable in whatever the autoencoder stores."""
    dtype = ae.left.dtype
    if isinstance(ae.mixing, Dense):
        return ae.mixing.weight
    if isinstance(ae.mixing, Identity):
        return torch.eye(ae.n_latents, dtype=dtype)
    if isinstance(ae.mixing, Sparse):
        rows, columns, _ = ae.mixing.entries()
        zeros = torch.zeros(ae.n_latents, ae.n_hidden, dtype=dtype)
        return zeros.index_put((rows, columns), ae.mixing.values)
    return ae.mixing.weight * ae.mixing.mask


def forms(ae: BilinearAutoencoder) -> Tensor:
    """All W_i, (k, d, d), as the decoder uses them."""
    lifted = torch.einsum("kh,hd,he->kde", mixing_matrix(ae), ae.left, ae.right)
    return (lifted + lifted.mT) / 2 if ae.symmetric else lifted


def lift(tokens: Tensor) -> Tensor:
    """X = xxᵀ of every token."""
    return tokens[:, :, None] * tokens[:, None, :]


def latents(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """z_i = ⟨W_i, X⟩."""
    return torch.einsum("kde,nde->nk", forms(ae), lift(tokens))


def errors(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """‖X̂ − X‖²/‖X‖² of every token."""
    reconstruction = torch.einsum("nk,kde->nde", latents(ae, tokens), forms(ae))
    target = lift(tokens)
    return (reconstruction - target).square().sum((1, 2)) / target.square().sum((1, 2))


def hoyer(values: Tensor) -> Tensor:
    """Hoyer density of one vector."""
    n = len(values)
    return (values.abs().sum() / values.square().sum().sqrt() - 1) / (n**0.5 - 1)
