"""Strongest contexts where nearly everything is a copy, in any order of the parts."""

import numpy as np
import pytest
import torch

from quadric.evidence.reservoir import Block, StrongestContexts


def shown(values: np.ndarray, windows: np.ndarray, parts: list[slice], n_contexts: int = 3) -> StrongestContexts:
    kept = StrongestContexts(len(values), n_contexts, 1)
    tokens, axes = torch.from_numpy(values.mean(0, keepdims=True).T).float(), torch.ones(len(values), 1, 1)
    for part in parts:
        places = np.arange(values.shape[1])[part]
        block = Block(slice(0, len(values)), values[:, part].astype(np.float32), places, tokens[part], axes)
        kept.update(block, windows[part])
    return kept


def expected(values: np.ndarray, windows: np.ndarray, n_contexts: int = 3) -> list[int]:
    best: dict[int, int] = {}
    for place in np.lexsort((np.arange(len(values)), -values)):
        if values[place] > 0:
            best.setdefault(int(windows[place]), int(place))
    return [*best.values(), *[-1] * n_contexts][:n_contexts]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_windows", [1, 2, 3, 5, 50])
def test_only_the_strongest_of_each_window_is_kept(seed: int, n_windows: int) -> None:
    generator = np.random.default_rng(seed)
    n = 256
    values = np.round(generator.standard_normal((2, n)), 1).astype(np.float32)  # rounded: many are equal
    copies = generator.random(n) < 0.9
    windows = np.where(copies, 0, generator.integers(0, n_windows, n)).astype(np.uint64)
    values[:, copies] = np.abs(values[:, copies]) + 2
    for parts in ([slice(0, n)], [slice(0, 100), slice(100, n)], [slice(100, n), slice(0, 100)]):
        kept = shown(values, windows, parts)
        for latent in range(2):
            assert kept.places[latent, 0].tolist() == expected(values[latent], windows)
            assert kept.places[latent, 1].tolist() == expected(-values[latent], windows)
