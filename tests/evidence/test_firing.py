"""Firing sums against the values themselves, for shapes of distribution that latents have."""

import numpy as np
import pytest

from quadric.evidence.firing import PROBABILITIES, FiringSums

RNG = np.random.default_rng(0)
DISTRIBUTIONS = {
    "gaussian": RNG.standard_normal(20_000),
    "one-sided": RNG.standard_normal(20_000) ** 2,
    "heavy": RNG.standard_normal(20_000) ** 5 * 1e-3,
    "tiny": RNG.standard_normal(20_000) * 1e-5,
    "mostly zero": RNG.standard_normal(20_000) * (RNG.random(20_000) < 0.01),
}


def sums_of(values: np.ndarray, batch: int = 700) -> FiringSums:
    sums = FiringSums(1)
    for start in range(0, len(values), batch):
        part = values[None, start : start + batch].astype(np.float32)
        sums.update(slice(0, 1), part, for_density=part, predicted=part)
        sums.n_tokens += part.shape[1]
    return sums


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_are_within_a_bin(name: str) -> None:
    values = DISTRIBUTIONS[name]
    low, high = (np.quantile(values, PROBABILITIES, method=side) for side in ("lower", "higher"))
    found = sums_of(values).quantiles()[0]
    assert (found >= low - np.abs(low) / 16 - 2.0**-25).all()
    assert (found <= high + np.abs(high) / 16 + 2.0**-25).all()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_share_beyond_a_limit_is_counted(name: str) -> None:
    values = DISTRIBUTIONS[name]
    limit = np.float32(2 * np.sqrt((values**2).mean()))
    found = sums_of(values).share_beyond(np.array([limit]))[0]
    inner, outer = ((np.abs(values) > limit * factor).mean() for factor in (17 / 16, 15 / 16))
    assert inner - 1e-6 <= found <= outer + 1e-6


def test_values_beyond_the_histogram_are_bounded_by_what_was_seen() -> None:
    sums = sums_of(np.array([1e6, -1e6, 1e-30, 0.0, 5.0]))
    assert sums.quantiles((0.0, 0.5, 1.0))[0].tolist() == [-64, 0, 64]
    assert sums_of(np.array([0.3, 0.31])).quantiles((0.0, 1.0))[0].tolist() == pytest.approx([0.3, 0.31])


def test_curvature_is_what_the_predictor_leaves() -> None:
    generator = np.random.default_rng(1)
    predicted = generator.standard_normal((3, 5000)).astype(np.float32)
    noise = generator.standard_normal(5000).astype(np.float32)
    values = np.stack([2 * predicted[0] + 1, predicted[1] + noise, np.full(5000, 0.5, dtype=np.float32)])
    sums = FiringSums(3)
    for part in np.split(np.arange(5000), 7 * [0] + [1234]):
        if len(part):
            batch = values[:, part].copy()
            sums.update(slice(0, 3), batch, for_density=batch, predicted=predicted[:, part].copy())
            sums.n_tokens += len(part)
    expected = 1 - np.corrcoef(values[1], predicted[1])[0, 1] ** 2
    assert sums.curvature().tolist() == pytest.approx([0, expected, 0], abs=1e-5)
