"""The geometry of a dictionary, computed once, against each part computed by itself."""

import dataclasses
from functools import partial
from importlib import import_module

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.geometry import dictionary_geometry, neighbours, statistics
from quadric.model.lens import token_moments
from tests import zoo
from tests.geometry.examples import planted_shapes, trained

decomposition = import_module("quadric.geometry.decomposition")


def large():
    return BilinearAutoencoder(d_model=40, n_latents=150, n_hidden=300, prior="composite", mixing_density=0.01, seed=1)


# Built by the tests: every test process collects this file, and only one of them runs it.
AUTOENCODERS = (
    *(pytest.param(partial(zoo.make, variety), id=variety) for variety in zoo.VARIETIES),
    *(pytest.param(partial(trained, prior), id=f"trained {prior}") for prior in ("atomic", "composite", "quadratic")),
    pytest.param(planted_shapes, id="planted"),
    pytest.param(large, id="large"),
)


@pytest.mark.parametrize("build", AUTOENCODERS)
def test_statistics_are_those_computed_alone(build):
    ae = build()
    geometry = dictionary_geometry(ae)
    alone = statistics(ae)
    for table in (geometry.statistics(), statistics(ae, geometry=geometry)):
        for field in dataclasses.fields(alone):
            found, expected = getattr(table, field.name), getattr(alone, field.name)
            if isinstance(expected, torch.Tensor) and expected.is_floating_point():
                torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13, msg=field.name)
            elif isinstance(expected, torch.Tensor):
                assert torch.equal(found, expected), field.name
            else:
                assert found == expected, field.name


@pytest.mark.parametrize("build", AUTOENCODERS)
def test_neighbours_are_those_computed_alone_to_the_bit(build):
    ae = build()
    geometry, alone = dictionary_geometry(ae), neighbours(ae)
    for found in (geometry.neighbours, neighbours(ae, geometry=geometry)):
        assert all(torch.equal(one, other) for one, other in zip(found, alone, strict=True))
    wider = neighbours(ae, 3, largest_rank=11)
    assert all(
        torch.equal(one, other)
        for one, other in zip(neighbours(ae, 3, largest_rank=11, geometry=geometry), wider, strict=True)
    )


def test_every_latent_is_decomposed_once_for_all_results(monkeypatch):
    ae = trained()
    decomposed: list[int] = []
    own = decomposition.eigenpairs

    def counted(left, right, weights):
        decomposed.append(len(weights))
        return own(left, right, weights)

    monkeypatch.setattr(decomposition, "eigenpairs", counted)
    told: list[tuple[str, int, int, str]] = []
    geometry = dictionary_geometry(ae, lambda *report: told.append(report))
    statistics(ae, geometry=geometry)
    neighbours(ae, geometry=geometry)
    assert sum(decomposed) == ae.n_latents
    assert told == sorted(told)
    assert told[-1] == ("geometry", 2 * ae.n_latents, 2 * ae.n_latents, "")


def test_another_tolerance_than_the_geometrys_is_honoured():
    ae = trained()
    geometry = dictionary_geometry(ae)
    found, alone = statistics(ae, 0.3, geometry=geometry), statistics(ae, 0.3)
    assert found.tolerance == 0.3
    assert found.shape == alone.shape
    assert torch.equal(found.dimension, alone.dimension)
    assert int(found.dimension.sum()) < int(geometry.statistics().dimension.sum())


def test_the_centre_by_argument_is_that_of_the_moments():
    ae = zoo.make("composite dense storage")
    tokens = zoo.tokens(200) + 3
    moments = token_moments(tokens)
    geometry = dictionary_geometry(ae, moments=moments)
    table = statistics(ae, centre=moments)
    assert geometry.statistics().shape == table.shape
    torch.testing.assert_close(geometry.statistics().curvature, table.curvature)
    unit = torch.nn.functional.normalize(tokens, dim=1)
    about_mean = statistics(ae, centre=unit.mean(0))
    torch.testing.assert_close(about_mean.eigenvalues, table.eigenvalues)
    assert not torch.equal(about_mean.curvature, table.curvature)  # without the covariance, all directions are alike


def test_geometry_of_other_weights_is_refused():
    geometry = dictionary_geometry(zoo.make("atomic"))
    other = zoo.make("atomic")
    with torch.no_grad():
        other.left[0, 0] += 1e-3
    for use in (statistics, neighbours):
        with pytest.raises(ValueError, match="that of other weights"):
            use(other, geometry=geometry)
