"""The block sum: zᵀKz = Σ_{a,b} z_a K_ab z_b, with half of the blocks by symmetry."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model.fast.products import block_pairs
from tests import zoo


@pytest.mark.parametrize("block_size", [1, 5, 16, 100])
def test_blocks_on_and_above_the_diagonal_suffice(block_size):
    ae, x = zoo.make("quadratic"), zoo.tokens()
    z, kernel = ae.encode(x).detach(), ae.kernel()
    total = torch.zeros(len(x), dtype=torch.float64)
    for a, b in block_pairs(ae.n_latents, block_size):
        times = 1 if a == b else 2
        total += times * torch.einsum("na,ab,nb->n", z[:, a], kernel[a, b], z[:, b])
    assert_close(total, torch.einsum("na,ab,nb->n", z, kernel, z))


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize("block_size", [15, 100, 1000])
def test_the_error_does_not_depend_on_the_blocks(variety, block_size):
    x = zoo.tokens()
    assert_close(zoo.make(variety, block_size=block_size).error(x), zoo.make(variety).error(x))


def test_no_block_is_larger_than_asked():
    """The largest matrix that the blocked form makes is n×h or block×block, never k×k or h×h."""
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.layout == torch.strided:
                seen.append(result.numel())
            return result

    x = zoo.tokens(4)
    ae = zoo.make("quadratic", block_size=15)
    with Watch():
        ae.loss(x, 0.3).total.backward()
    assert max(seen) <= max(ae.left.numel(), ae.mixing.weight.numel(), 4 * ae.n_hidden) < ae.n_hidden**2
    seen.clear()
    dense = zoo.make("quadratic")
    with Watch():
        dense.loss(x, 0.3).total.backward()
    assert max(seen) >= ae.n_hidden**2
