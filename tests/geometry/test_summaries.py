"""`repr` of every result of geometry is a short summary: no tensor is ever printed."""

from collections.abc import Callable

import pytest

from quadric import BilinearAutoencoder, geometry
from quadric.geometry.spectra import spectra
from tests import zoo
from tests.geometry.examples import planted_shapes, trained

# Functions, so that the dictionaries are trained by the tests, and not by every process that collects this file.
RESULTS: dict[str, Callable[[BilinearAutoencoder], object]] = {
    "Eigenpairs": lambda ae: geometry.spectrum(ae, 0),
    "SpectrumBatch": lambda ae: next(iter(spectra(ae))),
    "Form": lambda ae: geometry.latent_form(ae, 0),
    "LatentStatistics": geometry.statistics,
    "Neighbours": geometry.neighbours,
    "Decomposition": geometry.decompose,
    "DictionaryGeometry": geometry.dictionary_geometry,
    "DescriptionLength": geometry.description_length,
    "HungarianSimilarity": lambda ae: geometry.hungarian_similarity(ae, ae),
    "Comparison": lambda ae: geometry.compare(ae, trained("atomic")),
    "Agreement": lambda ae: geometry.compare(ae, trained("atomic")).agreement,
}


@pytest.mark.parametrize("name", RESULTS)
def test_summaries_are_short(name: str) -> None:
    shown = repr(RESULTS[name](trained()))
    assert shown.startswith(f"{name}(")
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
