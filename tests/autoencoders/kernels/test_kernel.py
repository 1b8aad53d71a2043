"""The kernel of a dense C."""

import pytest

from quadric.autoencoders.kernels.kernel import dense_kernel
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401


@DTYPES
@pytest.mark.parametrize(("k", "h"), [(1, 1), (4, 13), (13, 4), (24, 24)])
def test_value_and_gradient_match_plain_autograd(k, h, dtype, small_blocks):  # noqa: F811
    weight, half = random(k, h, dtype=dtype), random(h, h, dtype=dtype, seed=1)
    assert_same(
        lambda c, m: dense_kernel(c, m + m.mT),
        lambda c, m: c @ (m + m.mT) @ c.mT,
        weight,
        half,
    )
