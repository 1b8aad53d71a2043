"""The map of latents. Only this file runs UMAP itself: numba compiles it for about 20 seconds per process."""

import numpy as np
import torch

from quadric.geometry import neighbours
from quadric.viewer.dictionaries import umap_layout
from tests.evidence.streams import small_autoencoder


def test_the_map_is_the_same_for_the_same_seed_and_puts_neighbours_together() -> None:
    ae = small_autoencoder(40, seed=1)
    close = neighbours(ae, count=5)
    layout = umap_layout(close, 0)
    assert torch.get_num_threads() == 1  # as tests/conftest.py sets it
    np.testing.assert_array_equal(layout, umap_layout(close, 0))
    distance = np.linalg.norm(layout[:, None] - layout[None], axis=-1)
    near = distance[np.arange(40)[:, None], close.latents.numpy()].mean()
    assert near < 0.8 * distance.mean()


def test_a_handful_of_latents_has_no_map() -> None:
    assert umap_layout(neighbours(small_autoencoder(4)), 0) is None
