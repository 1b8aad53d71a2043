"""A linear latent times the mean looks like a hyperboloid about the origin, and is linear on tokens.

With α = m·x of mean ᾱ and standard deviation s, and w·x of mean zero and independent of it, z = (m·x)(w·x) has the
variance (ᾱ² + s²) Var(w·x), of which the linear function ᾱ(w·x) explains 1 / (1 + (s/ᾱ)²).
"""

import numpy as np
import pytest


@pytest.mark.parametrize("spread", [0.082, 0.5, 2.0])
def test_a_linear_latent_times_the_mean_is_indefinite_and_linear(spread: float) -> None:
    generator, d = np.random.default_rng(0), 6
    mean, direction = np.linalg.qr(generator.standard_normal((d, d)))[0][:, :2].T
    form = (np.outer(mean, direction) + np.outer(direction, mean)) / 2
    eigenvalues = np.linalg.eigvalsh(form)
    np.testing.assert_allclose(eigenvalues[[0, -1]], [-0.5, 0.5])
    np.testing.assert_allclose(eigenvalues[1:-1], 0, atol=1e-12)
    alpha, across = 0.7 * (1 + spread * generator.standard_normal(400_000)), generator.standard_normal((400_000, d))
    x = across - np.outer(across @ mean, mean) + np.outer(alpha, mean)
    z = ((x @ form) * x).sum(1)
    centred = np.column_stack([x, np.ones(len(x))])
    left = z - centred @ np.linalg.lstsq(centred, z, rcond=None)[0]
    assert 1 - left.var() / z.var() == pytest.approx(1 / (1 + spread**2), abs=0.01)
