"""Every variety of bilinear autoencoder, small, to run one test over all of them."""

from typing import Any

import torch

from quadric import BilinearAutoencoder
from quadric.model.lens import AffineLens

_SPARSE = {"prior": "composite", "n_latents": 16, "n_hidden": 400, "mixing_density": 0.009}
_QUADRATIC = {"prior": "quadratic", "n_latents": 16, "n_hidden": 40}
VARIETIES: dict[str, dict[str, Any]] = {
    "atomic": {"prior": "atomic", "n_latents": 24},
    "atomic same factors": {"prior": "atomic", "n_latents": 24, "same_factors": True},
    "atomic printed": {"prior": "atomic", "n_latents": 24, "symmetric": False},
    "composite dense storage": {"prior": "composite", "n_latents": 16, "n_hidden": 40, "mixing_density": 0.25},
    "composite sparse storage": _SPARSE,
    "composite sparse same factors": {**_SPARSE, "same_factors": True},
    "composite sparse printed": {**_SPARSE, "symmetric": False},
    "quadratic": _QUADRATIC,
    "quadratic same factors": {**_QUADRATIC, "same_factors": True},
    "quadratic printed": {**_QUADRATIC, "symmetric": False},
    "atomic affine": {"prior": "atomic", "n_latents": 24, "lens": "affine"},
    "composite sparse affine": {**_SPARSE, "lens": "affine"},
    "quadratic affine": {**_QUADRATIC, "lens": "affine"},
}
PAPER = [name for name, settings in VARIETIES.items() if "lens" not in settings]
"""Those that read tokens as the paper does, without a lens."""
SPARSE = [name for name in VARIETIES if name.startswith(("atomic", "composite sparse"))]
"""Those whose C is stored by its entries, or is the identity."""
BLOCK_SIZES = (None, 15, 100)


def make(variety: str, dtype: torch.dtype = torch.float64, block_size: int | None = None) -> BilinearAutoencoder:
    """The named variety with d = 12, its offset moved off zero so that it takes part."""
    settings = {**VARIETIES[variety]}
    lens = affine_lens().to(dtype) if settings.pop("lens", "paper") == "affine" else None
    ae = BilinearAutoencoder(d_model=12, seed=3, dtype=dtype, block_size=block_size, lens=lens, **settings)
    with torch.no_grad():
        ae.offset.normal_(0, 0.01, generator=torch.Generator().manual_seed(4))
    return ae


def affine_lens() -> AffineLens:
    """A lens about a centre as far from the origin as that of a language model's tokens."""
    direction = torch.randn(12, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    covariance = 0.51 / 12 * torch.eye(12, dtype=torch.float64)
    constant = torch.tensor(0.3, dtype=torch.float64)
    return AffineLens(0.7 * direction / direction.norm(), constant, covariance, torch.tensor(1000))


def tokens(n: int = 30, d: int = 12, dtype: torch.dtype = torch.float64, seed: int = 5) -> torch.Tensor:
    """Random tokens of very different norms: nothing here may depend on scale by accident."""
    generator = torch.Generator().manual_seed(seed)
    scales = torch.logspace(-2, 2, n, dtype=dtype)[:, None]
    return torch.randn(n, d, generator=generator, dtype=dtype) * scales
