"""Positions of latents on the landing page's map: UMAP of their neighbours, from weights alone."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from quadric.geometry import Neighbours

FEWEST_LATENTS = 8
"""With fewer latents a map adds nothing to the list of neighbours."""
METHOD = (
    "UMAP of each latent's {count} nearest by subspace overlap ‖UᵢᵀUⱼ‖²/√(rᵢrⱼ), distance 1 − overlap, random start, "
    "seed {seed}; made from weights about the centre of the tokens, not from activations"
)


def describe(neighbours: Neighbours, seed: int) -> str:
    """Say in words how the coordinates were computed."""
    return METHOD.format(count=neighbours.latents.shape[1], seed=seed)


def umap_layout(neighbours: Neighbours, seed: int) -> Float32[np.ndarray, "k 2"] | None:
    """Two coordinates per latent; None where there are too few latents for a map."""
    n_latents = len(neighbours.latents)
    if n_latents < FEWEST_LATENTS:
        return None
    itself = np.arange(n_latents)[:, None]
    nearest = np.concatenate([itself, neighbours.latents.numpy()], axis=1)
    distances = np.concatenate([np.zeros_like(itself), 1 - neighbours.overlaps.numpy()], axis=1).clip(0, 1)
    with (
        _threads_of_torch_kept(),
        warnings.catch_warnings(),
    ):  # about optional packages that are not installed, and about isolated latents
        warnings.simplefilter("ignore")
        umap = _umap()(
            n_neighbors=nearest.shape[1],
            precomputed_knn=(nearest.astype(np.int32), distances.astype(np.float32), None),
            # Random start: the default spectral one needs the rows themselves, and here only neighbours are known.
            init=np.random.default_rng(seed).uniform(-10, 10, (n_latents, 2)).astype(np.float32),
            random_state=seed,
            n_jobs=1,
        )
        found = umap.fit_transform(np.zeros((n_latents, 1), dtype=np.float32))
    return np.nan_to_num(np.asarray(found, dtype=np.float32))


@contextmanager
def _threads_of_torch_kept() -> Iterator[None]:
    """The first UMAP of a process sets the number of OpenMP threads, which is torch's too."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _umap() -> Any:
    try:
        from umap import UMAP
    except ImportError:
        raise ValueError("the map of latents needs umap-learn; pip install 'quadric[site]', or pass --no-map") from None
    return UMAP
