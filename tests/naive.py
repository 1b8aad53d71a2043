"""The mathematics written out: d×d matrices, no kernel trick. Slow, obvious, and what everything is tested against."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from quadric.model import BilinearAutoencoder
from quadric.model.fast.sparse import Sparse
from quadric.model.lens import PaperLens
from quadric.model.mixing import Dense, Identity


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
    """All W_i in the lens's coordinates, (k, w, w), as the decoder uses them."""
    lifted = torch.einsum("kh,hd,he->kde", mixing_matrix(ae), ae.left, ae.right)
    return (lifted + lifted.mT) / 2 if ae.symmetric else lifted


def lift(tokens: Tensor) -> Tensor:
    """xxᵀ of every vector."""
    return tokens[:, :, None] * tokens[:, None, :]


def seen(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """x̃ = [u − μ; c] of unit tokens, or the tokens themselves."""
    if isinstance(ae.lens, PaperLens):
        return tokens
    unit = tokens / tokens.norm(dim=-1, keepdim=True)
    return torch.cat([unit - ae.lens.centre, ae.lens.constant.expand(len(unit), 1)], dim=1)


def latents(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """z_i = ⟨W_i, X̃⟩."""
    return torch.einsum("kde,nde->nk", forms(ae), lift(seen(ae, tokens)))


def unit_latents(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """z_i of x̃ scaled to unit norm, as the loss has it."""
    return torch.einsum("kde,nde->nk", forms(ae), lift(normalize(seen(ae, tokens))))


def objective(ae: BilinearAutoencoder, tokens: Tensor, top: int | None = None) -> Tensor:
    """‖X̃̂ − X̃‖²/‖X̃‖² of every token: the error in the lens's own coordinates, of all latents or of the strongest."""
    z, all_forms = latents(ae, tokens), forms(ae)
    if top is not None:
        share = (z * all_forms.flatten(1).norm(dim=1)).abs()
        z = torch.where(share >= share.sort(descending=True).values[:, top - 1 : top], z, 0)
    target = lift(seen(ae, tokens))
    residual = torch.einsum("nk,kde->nde", z, all_forms) - target
    return residual.square().sum((1, 2)) / target.square().sum((1, 2))


def errors(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """‖X̂ − X‖²/‖X‖² of every token, X̂ = T X̃̂ Tᵀ by the map u = Tx̃ back to the token."""
    if isinstance(ae.lens, PaperLens):
        return objective(ae, tokens)
    back = torch.cat([torch.eye(ae.d_model).to(tokens), (ae.lens.centre / ae.lens.constant)[:, None]], dim=1)
    reconstruction = back @ torch.einsum("nk,kde->nde", latents(ae, tokens), forms(ae)) @ back.mT
    target = lift(tokens / tokens.norm(dim=-1, keepdim=True))
    return (reconstruction - target).square().sum((1, 2))


def hoyer(values: Tensor) -> Tensor:
    """Hoyer density of one vector."""
    n = len(values)
    return (values.abs().sum() / values.square().sum().sqrt() - 1) / (n**0.5 - 1)


def density(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """Hoyer density of z − b, averaged over latents."""
    return torch.stack([hoyer(column) for column in (unit_latents(ae, tokens) - ae.offset).T]).mean()


def overlap(ae: BilinearAutoencoder) -> Tensor:
    """Σ_{i≠j} cos²(W_i, W_j) / k, where an empty form resembles nothing."""
    flat = normalize(forms(ae).flatten(1))
    cosines = flat @ flat.mT
    return (cosines.square().sum() - cosines.diagonal().square().sum()) / ae.n_latents


def mean_error(ae: BilinearAutoencoder, tokens: Tensor) -> Tensor:
    """‖mean of X̂ − mean of X‖², with every X̂ materialized."""
    rebuilt = torch.einsum("ni,ide->nde", unit_latents(ae, tokens), forms(ae))
    return (rebuilt - lift(normalize(seen(ae, tokens)))).mean(0).square().sum()
