"""The geometry of a dictionary, computed once, against each part computed by itself, and on disk.

It is read back to the bit, and computed again whenever it is not exactly what the weights give.
"""

import dataclasses
import json
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.geometry import DictionaryGeometry, dictionary_geometry, kept_geometry, neighbours, statistics
from quadric.geometry.dictionary_geometry import load_geometry, stored_geometry
from quadric.geometry.dictionary_geometry import save_geometry as save
from quadric.model.lens import token_moments
from tests import zoo
from tests.geometry.centred import a_centre
from tests.geometry.examples import planted_shapes, trained

decomposition = import_module("quadric.geometry.decomposition")
stored_module = import_module("quadric.geometry.dictionary_geometry")  # the package's attribute is the function


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
        with pytest.raises(ValueError, match="is about other weights"):
            use(other, geometry=geometry)


def assert_same(found: DictionaryGeometry, expected: DictionaryGeometry) -> None:
    assert found.weights_sha256 == expected.weights_sha256
    assert (found.centre_sha256, found.tolerance) == (expected.centre_sha256, expected.tolerance)
    for name in ("eigenvalues", "support", "axes", "axis_quadratic", "axis_linear", "axis_kind", "constant", "energy"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    for name in ("readings", "neighbours", "redundancy"):
        for one, other in zip(getattr(found, name), getattr(expected, name), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_what_was_saved_is_read_back_to_the_bit(variety: str, tmp_path: Path) -> None:
    ae = zoo.make(variety)
    geometry = dictionary_geometry(ae)
    save(geometry, tmp_path / "geometry")
    assert_same(load_geometry(tmp_path / "geometry"), geometry)
    kept = stored_geometry(ae, tmp_path / "geometry")
    assert kept is not None
    assert_same(kept, geometry)


def test_the_second_time_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ae, told = zoo.make("atomic"), []
    first = kept_geometry(ae, tmp_path / "a", lambda *report: told.append(report))
    assert told[-1][1] == 2 * ae.n_latents
    monkeypatch.setattr(stored_module, "dictionary_geometry", lambda *_, **__: pytest.fail("computed again"))
    assert_same(kept_geometry(ae, tmp_path / "a", lambda *_: pytest.fail("reported again")), first)


def test_other_weights_replace_what_is_stored(tmp_path: Path) -> None:
    ae = zoo.make("composite dense storage")
    kept_geometry(ae, tmp_path)
    with torch.no_grad():
        ae.right[1] *= 2
    assert stored_geometry(ae, tmp_path) is None
    assert_same(kept_geometry(ae, tmp_path), dictionary_geometry(ae))
    assert stored_geometry(ae, tmp_path) is not None
    assert len(list(tmp_path.glob("tensors-*"))) == 1


def test_another_centre_is_another_geometry(tmp_path: Path) -> None:
    ae, centre = zoo.make("atomic"), a_centre()
    about_origin = kept_geometry(ae, tmp_path)
    assert stored_geometry(ae, tmp_path, moments=centre) is None
    about_centre = kept_geometry(ae, tmp_path, moments=centre)
    assert_same(about_centre, dictionary_geometry(ae, moments=centre))
    assert not torch.equal(about_centre.eigenvalues, about_origin.eigenvalues)
    assert stored_geometry(ae, tmp_path) is None
    assert stored_geometry(ae, tmp_path, moments=centre) is not None
    assert stored_geometry(ae, tmp_path, any_centre=True) is not None


def test_an_affine_lens_has_its_own_centre(tmp_path: Path) -> None:
    ae = zoo.make("atomic affine")
    assert_same(kept_geometry(ae, tmp_path, moments=a_centre()), dictionary_geometry(ae))
    assert stored_geometry(ae, tmp_path) is not None


def _tensor_file(folder: Path) -> Path:
    (path,) = folder.glob("tensors-*")
    return path


def _flip_a_byte(folder: Path) -> None:
    content = bytearray(_tensor_file(folder).read_bytes())
    content[-1] ^= 1
    _tensor_file(folder).write_bytes(content)


def _edit_record(folder: Path, **changes: object) -> None:
    path = folder / "geometry.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _point_outside(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.safetensors"
    _tensor_file(folder).replace(elsewhere)
    tensors = json.loads((folder / "geometry.json").read_text())["tensors"]
    _edit_record(folder, tensors=tensors | {"file": f"../{elsewhere.name}"})


DAMAGE = {
    "a changed byte": _flip_a_byte,
    "a truncated file": lambda folder: _tensor_file(folder).write_bytes(_tensor_file(folder).read_bytes()[:-9]),
    "a missing file": lambda folder: _tensor_file(folder).unlink(),
    "a file elsewhere": _point_outside,
    "a record that is not JSON": lambda folder: (folder / "geometry.json").write_text("{"),
    "a record of something else": lambda folder: _edit_record(folder, format="other"),
    "an older format": lambda folder: _edit_record(folder, format_version=0),
    "a newer format": lambda folder: _edit_record(folder, format_version=99),
    "an unknown key": lambda folder: _edit_record(folder, more=1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_or_outdated_geometry_is_computed_again(damage: str, tmp_path: Path) -> None:
    ae, folder = zoo.make("atomic"), tmp_path / "geometry"
    expected = kept_geometry(ae, folder)
    DAMAGE[damage](folder)
    assert stored_geometry(ae, folder) is None
    assert_same(kept_geometry(ae, folder), expected)
    assert stored_geometry(ae, folder) is not None


def test_a_version_that_keeps_more_computes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ae = zoo.make("atomic")
    kept_geometry(ae, tmp_path)
    monkeypatch.setattr(stored_module, "KEPT_AXES", 9)
    assert stored_geometry(ae, tmp_path) is None


def test_a_folder_that_cannot_be_written_still_gives_a_geometry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stored_module, "replaced_arrays", refuse)
    assert kept_geometry(zoo.make("atomic"), tmp_path / "geometry").n_latents == 24

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stored_module, "replaced_arrays", broken)
    with pytest.raises(OSError, match="Input/output"):
        kept_geometry(zoo.make("atomic"), tmp_path / "geometry")


def test_a_users_tensors_beside_the_geometry_stay(tmp_path: Path) -> None:
    (tmp_path / "tensors-mine.safetensors").write_bytes(b"mine")
    kept_geometry(zoo.make("atomic"), tmp_path)
    kept_geometry(trained("composite"), tmp_path)
    assert (tmp_path / "tensors-mine.safetensors").read_bytes() == b"mine"
    assert len(list(tmp_path.glob("tensors-*"))) == 2
