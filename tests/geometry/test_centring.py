"""Splitting forms and tokens about a centre: z = vᵀQv + c·bᵀv + c²a against the form itself, for every lens."""

import pytest
import torch
from torch.testing import assert_close

from quadric.geometry.centring import Centre, as_centre, centre_sha256, centred_factors, centring_of, given_sha256
from quadric.model.lens import TokenMoments, token_moments
from quadric.model.objective import unit_tokens
from tests import naive, zoo

MEAN = unit_tokens(zoo.tokens() + 1).mean(0)


def split_value(ae, centring, unit, constant):
    """Σ_j C_j (l·[v; c])(r·[v; c]) with the split factors."""
    left, right = centred_factors(ae, centring)
    x = torch.cat([centring.coordinates(unit), constant[:, None]], dim=1)
    return ((x @ left.mT) * (x @ right.mT)) @ naive.mixing_matrix(ae).mT


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize("centre", [None, MEAN], ids=["origin", "centre"])
def test_the_parts_of_a_form_add_up_to_it(variety, centre):
    ae, unit = zoo.make(variety), unit_tokens(zoo.tokens())
    centring = centring_of(ae, centre)
    # m·u of each token plays the part of the constant in a raw dictionary; its split is then exact.
    along = torch.full((len(unit),), centring.scale, dtype=unit.dtype)
    if centring.direction is not None:
        along = unit @ centring.direction
    assert_close(split_value(ae, centring, unit, along), ae.encode(unit))


def test_a_lens_has_its_own_centre():
    ae = zoo.make("atomic affine")
    assert_close(centring_of(ae, MEAN).centre, ae.lens.centre)
    assert given_sha256(ae, MEAN) == ""
    assert given_sha256(zoo.make("atomic"), MEAN) == centre_sha256(as_centre(MEAN))


def test_a_centre_may_be_a_mean_or_the_sums_over_tokens():
    moments = token_moments(zoo.tokens())
    assert isinstance(moments, TokenMoments)
    found = as_centre(moments)
    assert_close(found.mean, moments.mean)
    assert_close(found.covariance, moments.covariance)
    assert centre_sha256(found) != centre_sha256(Centre(moments.mean))


def test_coordinates_about_a_centre_are_perpendicular_to_it():
    centring = centring_of(zoo.make("atomic"), MEAN)
    v = centring.coordinates(unit_tokens(zoo.tokens()))
    assert_close(v @ MEAN, torch.zeros(len(v), dtype=v.dtype), atol=1e-12, rtol=0)
    assert not centring.at_origin
    assert centring_of(zoo.make("atomic")).at_origin


def test_a_centre_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"the centre has 5 coordinates; the autoencoder reads d_model=12"):
        centring_of(zoo.make("atomic"), torch.ones(5))
