"""`repr` of every result of geometry is a short summary: no tensor is ever printed."""

import pytest

from quadric import geometry
from quadric.geometry.comparison import portrait
from quadric.geometry.spectra import spectra
from tests import zoo
from tests.geometry.examples import planted_shapes, trained


def results() -> list[object]:
    ae = trained()
    comparison = geometry.compare(ae, trained("atomic"))
    return [
        geometry.spectrum(ae, 0),
        next(iter(spectra(ae))),
        geometry.latent_form(ae, 0),
        geometry.level_set(geometry.spectrum(ae, 0), 0.1),
        geometry.statistics(ae),
        geometry.neighbours(ae),
        geometry.decompose(ae),
        geometry.dictionary_geometry(ae),
        geometry.description_length(ae),
        geometry.hungarian_similarity(ae, ae),
        comparison,
        comparison.agreement,
        portrait(ae),
        portrait(ae).eigenspace,
    ]


@pytest.mark.parametrize("result", results(), ids=lambda result: type(result).__name__)
def test_summaries_are_short(result: object) -> None:
    shown = repr(result)
    assert shown.startswith(f"{type(result).__name__}(")
    assert "tensor" not in shown.casefold()
    assert "\n" not in shown
    assert len(shown) < 400


def test_summaries_say_what_matters() -> None:
    ae = planted_shapes()
    shapes = "3 ellipsoid, 1 hyperboloid, 1 slab, 1 empty"
    assert repr(geometry.statistics(ae)).startswith(f"LatentStatistics(6 latents: {shapes}; median effective rank")
    assert repr(geometry.spectrum(ae, 3)) == "Eigenpairs(1 in d_model=12: λ = 2)"
    assert repr(geometry.latent_form(ae, 1)) == "Form(3 terms, d_model=12)"
    single = geometry.neighbours(zoo.make("atomic"), count=1)
    assert repr(single).startswith("Neighbours(1 of each of 24 latents, median closest overlap 0.")
