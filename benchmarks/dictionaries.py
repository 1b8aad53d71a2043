"""Random dictionaries of the paper's size, for benchmarks that need weights but no training."""

import torch

from quadric.model import BilinearArchitecture, BilinearAutoencoder


def gaussian_composite(
    *, d_model: int, n_latents: int, n_hidden: int, density: float, seed: int
) -> BilinearAutoencoder:
    """A composite dictionary with Gaussian weights, because drawing an orthogonal C of this size takes minutes."""
    generator = torch.Generator().manual_seed(seed)
    n_entries = round(density * n_latents * n_hidden)
    places = torch.randperm(n_latents * n_hidden, generator=generator)[:n_entries].sort().values
    architecture = BilinearArchitecture(
        d_model=d_model,
        n_latents=n_latents,
        n_hidden=n_hidden,
        prior="composite",
        mixing_density=density,
        symmetric=True,
        tied=False,
        init="orthogonal",
        seed=seed,
    )
    tensors = {
        "left": torch.randn(n_hidden, d_model, generator=generator) / d_model**0.5,
        "right": torch.randn(n_hidden, d_model, generator=generator) / d_model**0.5,
        "offset": torch.zeros(n_latents),
        "mixing_rows": places // n_hidden,
        "mixing_columns": places % n_hidden,
        "mixing_values": torch.randn(n_entries, generator=generator),
    }
    return BilinearAutoencoder.from_tensors(architecture, tensors)
