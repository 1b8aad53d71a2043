"""Equation 3: {x : w·x > τ} is a half-space; {x : (w·x)² > τ} lies outside a slab that is symmetric about 0."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from quadric import BilinearAutoencoder, TopKAutoencoder
from tests import zoo

DIRECTION = torch.tensor([[3.0, 4.0]], dtype=torch.float64) / 5


def slab(x):
    ae = BilinearAutoencoder(d_model=2, n_latents=1, prior="atomic", same_factors=True, dtype=torch.float64)
    ae.left.data.copy_(DIRECTION)
    return ae.encode(x)[:, 0].detach()


def half_space(x):
    ae = TopKAutoencoder(d_model=2, n_latents=1, n_active=1, dtype=torch.float64)
    ae.encoder.data.copy_(DIRECTION)
    return ae.encode(x)[:, 0].detach()


@given(st.floats(0, 4))
def test_membership_is_decided_by_the_projection_alone(threshold):
    x = zoo.tokens(200, 2)
    projection = (x @ DIRECTION.mT)[:, 0]
    assert torch.equal(half_space(x) > threshold, projection > threshold)
    assert torch.equal(slab(x) > threshold, projection.abs() > threshold**0.5)


def test_the_slab_is_symmetric_and_the_half_space_is_not():
    x = zoo.tokens(200, 2)
    assert torch.equal(slab(x) > 0.5, slab(-x) > 0.5)
    assert not torch.equal(half_space(x) > 0.5, half_space(-x) > 0.5)


def test_the_slab_is_bounded_by_two_parallel_lines_at_the_root_of_the_threshold():
    along = torch.tensor([[4.0, -3.0]], dtype=torch.float64)
    for side in (-1, 1):
        edge = side * 0.49**0.5 * DIRECTION + torch.linspace(-5, 5, 11, dtype=torch.float64)[:, None] * along
        assert torch.allclose(slab(edge), torch.full((11,), 0.49, dtype=torch.float64))
