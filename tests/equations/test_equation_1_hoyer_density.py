"""Equation 1: Hoyer density (‖z − b‖₁/‖z − b‖₂ − 1)/(√n − 1)."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.objective import hoyer_density
from tests import naive, zoo

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = st.lists(finite, min_size=2, max_size=40).map(lambda v: torch.tensor(v, dtype=torch.float64)[:, None])


@given(vectors, finite)
def test_it_is_the_printed_formula(z, b):
    assume((z - b).abs().max() > 1e-6)
    assert_close(hoyer_density(z, torch.tensor([b], dtype=torch.float64))[0], naive.hoyer(z[:, 0] - b))


@given(vectors)
def test_it_runs_from_0_to_1(z):
    density = hoyer_density(z)
    assert -1e-12 <= density <= 1 + 1e-12


def test_it_is_0_for_one_hot_and_1_for_uniform():
    one_hot = torch.zeros(9, 1).index_fill(0, torch.tensor([4]), -3.0)
    assert_close(hoyer_density(one_hot), torch.zeros(1))
    signs = torch.tensor([[1.0], [-1.0], [1.0]])
    assert_close(hoyer_density(2.5 * signs), torch.ones(1))


@given(vectors, st.floats(1e-6, 1e6), st.sampled_from([-1.0, 1.0]))
def test_it_is_invariant_to_scale(z, scale, sign):
    assume(z.abs().max() > 1e-3)
    assert_close(hoyer_density(z * scale * sign), hoyer_density(z))


@given(vectors, finite, finite)
def test_it_is_invariant_to_translation_through_the_offset(z, b, shift):
    assume((z - b).abs().max() > 1e-2)
    offset = torch.tensor([b], dtype=torch.float64)
    assert_close(hoyer_density(z + shift, offset + shift), hoyer_density(z, offset), rtol=1e-6, atol=1e-6)


def test_the_learned_offset_finds_the_level_set_where_activations_concentrate():
    """A latent at 0.8 on all but a few tokens is dense at b = 0 and sparse at b = 0.8; b converges to 0.8."""
    generator = torch.Generator().manual_seed(0)
    z = torch.full((400, 1), 0.8) + 0.002 * torch.randn(400, 1, generator=generator)
    z[:8] += 3 * torch.randn(8, 1, generator=generator)
    b = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([b], lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        hoyer_density(z, b).sum().backward()
        optimizer.step()
    assert abs(b.item() - 0.8) < 0.05
    assert hoyer_density(z, b.detach()) < 0.25 < 0.75 < hoyer_density(z, torch.zeros(1))


def test_the_loss_averages_it_over_latents():
    ae, x = zoo.make("quadratic"), zoo.tokens()
    unit = x / x.norm(dim=-1, keepdim=True)
    columns = (ae.encode(unit) - ae.offset).T
    expected = torch.stack([naive.hoyer(column) for column in columns]).mean()
    assert_close(ae.loss(x, 0.3).density, expected)
    assert_close(ae.loss(x, 0.3).total, ae.loss(x, 0.3).error + 0.3 * expected)
