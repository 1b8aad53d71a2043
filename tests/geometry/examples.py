"""Autoencoders with known geometry: built by hand, trained, and awkward ones."""

from functools import cache

import torch
from torch import Tensor

from quadric import BilinearAutoencoder
from quadric.model import Composite, Provenance


def by_hand(left: Tensor, right: Tensor, mixing: Tensor, provenance: Provenance | None = None) -> BilinearAutoencoder:
    """A composite autoencoder with the given atoms and mixing, zeros of the mixing left out."""
    rows, columns = mixing.nonzero(as_tuple=True)
    (k, h), d = mixing.shape, left.shape[1]
    settings = Composite(n_latents=k, n_hidden=h, atoms_per_latent=len(rows) / k, lens="paper")
    entries = {"mixing_rows": rows, "mixing_columns": columns, "mixing_values": mixing[rows, columns]}
    ae = BilinearAutoencoder.from_tensors(
        settings, d, {"left": left, "right": right, "offset": torch.zeros(k), **entries}
    )
    ae.provenance = provenance or Provenance()
    return ae


def orthonormal(d: int, r: int, seed: int = 0) -> Tensor:
    """r orthonormal columns of width d."""
    return torch.linalg.qr(torch.randn(d, r, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).Q


def planted_shapes(dtype: torch.dtype = torch.float32) -> BilinearAutoencoder:
    """Latents: a circle, a sphere, a difference of directions, a direction, an empty one, and a negative ellipse."""
    axes = orthonormal(12, 12).mT.to(dtype)
    mixing = torch.zeros(6, 12, dtype=dtype)
    mixing[0, 0:2] = 1
    mixing[1, 2:5] = 0.5
    mixing[2, 5], mixing[2, 6] = 1, -1
    mixing[3, 7] = 2
    mixing[5, 8], mixing[5, 9] = -1, -4
    return by_hand(axes, axes.clone(), mixing)


@cache
def trained(prior: str = "composite", seed: int = 0) -> BilinearAutoencoder:
    """A small autoencoder after some training on tokens that are sums of points on two circles."""
    sizes = {"atomic": {}, "composite": {"n_hidden": 40, "mixing_density": 1.0}, "quadratic": {"n_hidden": 40}}
    ae = BilinearAutoencoder(d_model=12, n_latents=20, prior=prior, seed=seed, **sizes[prior])
    optimizer = torch.optim.Adam(ae.parameters(), lr=0.02)
    circles = orthonormal(12, 4).float()
    generator = torch.Generator().manual_seed(seed)
    for step in range(120):
        if prior == "composite" and step == 60:
            ae.set_mixing_density(0.08)
        angles = torch.randn(256, 4, generator=generator)
        tokens = angles @ circles.mT + 0.05 * torch.randn(256, 12, generator=generator)
        ae.loss(tokens).total.backward()
        optimizer.step()
        optimizer.zero_grad()
    return ae.eval()
