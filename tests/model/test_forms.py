"""Latents as geometry sees them, of our dictionaries and of kinds from outside."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model import Directions, Forms, JumpReLU, TopK, forms_of
from tests import naive, zoo


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_forms_of_a_bilinear_dictionary_are_its_own_in_any_coordinates(variety):
    ae, x = zoo.make(variety), zoo.tokens(5)
    forms = ae.forms()
    assert isinstance(forms, Forms)
    assert (forms.n_latents, forms.n_hidden, forms.d_model) == (ae.n_latents, ae.n_hidden, 12)
    assert (forms.width, forms.same_factors) == (ae.lens.width, ae.same_factors)
    assert_close(torch.stack([forms.form(i) for i in range(3)]), torch.stack([ae.form(i) for i in range(3)]))
    raw, unit = forms.raw(), ae.prepare(x)
    assert (raw.width, raw.lens.kind) == (12, "paper")
    # What they rebuild of uuᵀ is what the dictionary does.
    latents = ae.at_own_scale(unit, ae.encode_prepared(unit))
    rebuilt = torch.einsum("nk,kde->nde", latents, torch.stack([raw.form(i) for i in range(ae.n_latents)]))
    assert_close(rebuilt, (ae.reconstruct(unit) + ae.reconstruct(unit).mT) / 2)


@pytest.mark.parametrize("kind", [TopK, JumpReLU])
def test_a_linear_dictionary_has_directions(kind):
    ae, x = kind(n_latents=40).build(12).double(), zoo.tokens(5)
    directions = ae.forms()
    assert isinstance(directions, Directions)
    assert (directions.n_latents, directions.d_model, directions.n_active) == (40, 12, getattr(ae, "n_active", None))
    before = (x - directions.bias) @ directions.reads.mT + directions.constants
    assert_close(ae.keep(torch.relu(before)), ae.encode(x))
    assert_close(ae.encode(x) @ directions.writes + directions.bias, ae.decode(ae.encode(x)))


def test_forms_of_a_kind_from_outside_take_any_mixing():
    left, right = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mixing = torch.eye(3, dtype=torch.float64).repeat_interleave(2, dim=1)
    expected = torch.einsum("kh,hd,he->kde", mixing, left, right)
    expected = (expected + expected.mT) / 2
    for given in (mixing, mixing.to_sparse_csr()):
        forms = forms_of(left, right, given)
        assert_close(torch.stack([forms.form(i) for i in range(3)]), expected)
    squares = forms_of(left)
    assert squares.same_factors
    assert_close(squares.form(2), torch.outer(left[2], left[2]))
    assert naive.lift(left)[2].equal(squares.form(2))
