"""One decomposition of every latent about the centre, against materialized matrices and each latent read alone."""

import pytest
import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from quadric.geometry import SHAPES, decompose, read, spectra, with_signs
from quadric.geometry import decomposition as module
from quadric.geometry.centring import centring_of
from quadric.geometry.decomposition import centred_spectra, leading_axes
from quadric.geometry.dictionary import support
from tests import zoo
from tests.geometry.centred import SETTINGS, by_size, centre_for, curvature, parts


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_every_latent_is_split_into_its_parts(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    found = decompose(ae, centre=centre)
    assert torch.equal(found.support, support(ae))
    for latent in range(ae.n_latents):
        own = parts(ae, latent, centre)
        expected = by_size(torch.linalg.eigvalsh(own.quadratic)).abs()
        width = min(len(expected), found.eigenvalues.shape[1])
        assert_close(found.eigenvalues[latent, :width].abs(), expected[:width], atol=1e-12, rtol=1e-9)
        assert_close(expected[width:], torch.zeros_like(expected[width:]), atol=1e-12, rtol=0)
        assert_close(found.constant[latent], own.scale**2 * own.constant, atol=1e-12, rtol=1e-9)
        assert_close(found.energy[latent], ae.form(latent).double().square().sum(), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_coefficients_of_the_axes_are_those_of_the_form(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    found = decompose(ae, centre=centre)
    for latent in range(ae.n_latents):
        own, axes = parts(ae, latent, centre), found.axes[latent].double()
        there = found.axis_kind[latent] >= 0
        n_axes = int(there.sum())
        assert there.tolist() == [True] * n_axes + [False] * (8 - n_axes)
        assert_close(axes.mT @ axes, there.double().diag(), atol=1e-6, rtol=0)
        assert_close(found.axis_quadratic[latent], (axes.mT @ own.quadratic @ axes).diagonal(), atol=1e-6, rtol=1e-6)
        assert_close(found.axis_linear[latent], own.scale * own.linear @ axes, atol=1e-6, rtol=1e-6)
        largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
        assert (largest[0, there] > 0).all()


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
@pytest.mark.parametrize("tolerance", [0.05, 0.3])
def test_shape_and_curvature_are_those_of_the_latent_read_alone(variety: str, where: str, tolerance: float) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    found = decompose(ae, centre=centre, tolerance=tolerance)
    for latent in range(ae.n_latents):
        alone = read(ae, latent, centre, tolerance=tolerance)
        assert SHAPES[int(found.readings.shape[latent])] == alone.shape
        assert found.readings.shape_of(latent, tolerance) == alone.signature
        assert float(found.readings.curvature[latent]) == pytest.approx(curvature(parts(ae, latent, centre)), abs=1e-9)
        assert alone.curvature == pytest.approx(curvature(parts(ae, latent, centre)), abs=1e-9)


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_the_parts_add_up_to_the_latent(variety: str, where: str) -> None:
    """z = vᵀQv + c·bᵀv + c²a of every token; in a raw dictionary m·u plays the part of c."""
    ae, centre = zoo.make(variety), centre_for(where)
    centring = centring_of(ae, centre)
    tokens = zoo.tokens()
    unit = tokens / tokens.norm(dim=1, keepdim=True)
    v, z = centring.coordinates(unit), ae.encode(unit).detach()
    scale = torch.full((len(unit),), centring.scale, dtype=torch.float64)
    if centring.direction is not None:
        scale = unit @ centring.direction
    for latent in range(ae.n_latents):
        own = parts(ae, latent, centre)
        quadratic = torch.einsum("nd,de,ne->n", v, own.quadratic, v)
        assert_close(quadratic + scale * (v @ own.linear) + scale**2 * own.constant, z[:, latent])


@pytest.mark.parametrize(("variety", "where"), [case for case in SETTINGS if case[1] == "origin"])
def test_about_the_origin_axes_are_the_leading_eigenvectors_to_the_bit(variety: str, where: str) -> None:
    ae = zoo.make(variety)
    found = decompose(ae)
    assert set(found.axis_kind.flatten().tolist()) <= {0, -1}
    for latents, values, vectors in spectra(ae):
        for latent, own, directions in zip(latents.tolist(), values, vectors, strict=True):
            kept = min(8, len(own))
            assert torch.equal(found.eigenvalues[latent, : len(own)], own)
            expected = (directions[:, :kept] * (own[:kept] != 0)).float()
            assert torch.equal(found.axes[latent, :, :kept].abs(), expected.abs())
            assert not found.axes[latent, :, kept:].any()


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_centred_spectra_rebuild_the_quadratic_part(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    for latents, values, vectors in centred_spectra(ae, centre):
        for latent, own, directions in zip(latents.tolist(), values, vectors, strict=True):
            rebuilt = (directions * own) @ directions.mT
            assert_close(rebuilt, parts(ae, latent, centre).quadratic, atol=1e-9, rtol=0)


def by_hand(quadratic: torch.Tensor, linear: torch.Tensor) -> BilinearAutoencoder:
    """One latent z = vᵀQv + c·bᵀv through the zoo's lens."""
    lens = zoo.affine_lens()
    ae = BilinearAutoencoder(d_model=12, n_latents=1, n_hidden=14, prior="quadratic", lens=lens, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(quadratic)
    with torch.no_grad():
        for factors in (ae.left, ae.right):
            factors.zero_()
            factors[:12, :12] = vectors.mT
        ae.left[12, :12], ae.right[12, 12] = linear, 1
        ae.mixing.weight[0] = torch.cat([values, torch.tensor([1.0, 0.0]).double()])
    return ae


def axis(*places: int) -> torch.Tensor:
    direction = torch.zeros(12, dtype=torch.float64)
    direction[list(places)] = 1
    return direction / direction.norm()


def test_a_half_space_shows_its_direction_first_and_what_is_left_of_the_eigenvectors_after() -> None:
    quadratic = 0.05 * axis(0).outer(axis(0)) - 0.02 * axis(3).outer(axis(3))
    found = decompose(by_hand(quadratic, 5 * axis(0, 1)))
    assert SHAPES[int(found.readings.shape[0])] == "half-space"
    assert found.axis_kind[0].tolist() == [1, 0, 0, -1, -1, -1, -1, -1]
    assert_close(found.axes[0, :, 0].double(), axis(0, 1), atol=1e-6, rtol=0)
    assert_close(found.axes[0, :, 1].double().abs(), axis(0, 1), atol=1e-6, rtol=0)
    assert found.axes[0, :, 1] @ found.axes[0, :, 0] == pytest.approx(0, abs=1e-6)
    assert_close(found.axes[0, :, 2].double(), axis(3), atol=1e-6, rtol=0)
    assert found.axis_linear[0, :3].tolist() == pytest.approx([0.3 * 5, 0, 0], abs=1e-6)
    assert found.axis_quadratic[0, :3].tolist() == pytest.approx([0.025, 0.025, -0.02], abs=1e-6)


@pytest.mark.parametrize(
    ("eigenvalues", "shape", "kinds"),
    [
        ([4.0], "elliptic paraboloid", [0, 1]),
        ([4.0, 3.0], "elliptic paraboloid", [0, 0, 1]),
        ([4.0, 3.0, 2.0], "elliptic paraboloid", [0, 0, 1, 0]),
        ([4.0, -3.0, 2.0], "hyperbolic paraboloid", [0, 0, 1, 0]),
    ],
)
def test_a_paraboloid_opens_along_its_third_axis(eigenvalues: list[float], shape: str, kinds: list[int]) -> None:
    quadratic = sum(value * axis(place).outer(axis(place)) for place, value in enumerate(eigenvalues))
    found = decompose(by_hand(quadratic, 10 * axis(0, 7)))
    assert SHAPES[int(found.readings.shape[0])] == shape
    assert found.axis_kind[0].tolist() == kinds + [-1] * (8 - len(kinds))
    place = kinds.index(1)
    assert_close(found.axes[0, :, place].double(), axis(7), atol=1e-6, rtol=0)
    along = 0.3 * 10 / 2**0.5
    assert found.axis_linear[0, [0, place]].tolist() == pytest.approx([along, along])
    assert found.axis_quadratic[0, place] == pytest.approx(0, abs=1e-9)


def test_a_form_that_varies_nowhere_is_a_constant_or_empty() -> None:
    ae = by_hand(torch.zeros(12, 12, dtype=torch.float64), torch.zeros(12, dtype=torch.float64))
    assert SHAPES[int(decompose(ae).readings.shape[0])] == "empty"
    with torch.no_grad():
        ae.left[12, 12] = 2
    found = decompose(ae)
    assert SHAPES[int(found.readings.shape[0])] == "constant"
    assert found.constant.tolist() == pytest.approx([2 * 0.3**2])
    assert not found.axes.any()


def test_a_raw_form_of_the_mean_alone_is_a_constant_despite_rounding() -> None:
    centre = centre_for("centre")
    assert centre is not None
    ae = BilinearAutoencoder(d_model=12, n_latents=1, prior="atomic", same_factors=True, dtype=torch.float64)
    with torch.no_grad():
        ae.left.copy_(3 * centre.mean[None])
    found = decompose(ae, centre=centre)
    assert SHAPES[int(found.readings.shape[0])] == "constant"
    assert float(found.readings.curvature) == 0
    assert found.constant.tolist() == pytest.approx([9 * 0.7**4])


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_changing_signs_changes_everything_that_has_a_sign(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    found = decompose(ae, centre=centre)
    signs = torch.where(torch.arange(ae.n_latents) % 2 == 0, 1.0, -1.0)
    turned = with_signs(found, signs)
    if variety.startswith("composite"):
        mixing = ae.mixing.weight if hasattr(ae.mixing, "weight") else ae.mixing.values
        with torch.no_grad():
            mixing.neg_()
        expected = decompose(ae, centre=centre)
        for name in ("eigenvalues", "axis_quadratic", "axis_linear", "constant"):
            assert_close(getattr(turned, name)[1::2], getattr(expected, name)[1::2], atol=1e-9, rtol=0)
        assert torch.equal(turned.readings.positive[1::2], expected.readings.positive[1::2])
    assert torch.equal(turned.axes, found.axes)
    assert torch.equal(turned.eigenvalues[::2], found.eigenvalues[::2])


@pytest.mark.parametrize("n_axes", [1, 5, 8, 9, 20])
@pytest.mark.parametrize("variety", ["composite dense storage", "quadratic affine"])
def test_axes_from_a_known_decomposition_are_the_same_to_the_bit(variety: str, n_axes: int) -> None:
    ae = zoo.make(variety)
    known = decompose(ae)
    assert (known.leading(n_axes) is None) == (n_axes > 8)
    assert torch.equal(leading_axes(ae, n_axes, known), leading_axes(ae, n_axes))


def test_a_model_narrower_than_the_number_of_axes_has_zeros_beyond_its_width() -> None:
    ae = BilinearAutoencoder(d_model=4, n_latents=3, n_hidden=6, prior="quadratic")
    axes = leading_axes(ae, 11, decompose(ae))
    assert axes.shape == (3, 4, 11)
    assert torch.equal(axes, leading_axes(ae, 11))
    assert not axes[..., 4:].any()


def test_a_wide_models_covariance_is_applied_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    ae = zoo.make("quadratic affine")
    exact = decompose(ae).readings
    monkeypatch.setattr(module, "WIDEST_IN_DOUBLE", 1)
    rounded = decompose(ae).readings
    assert 0 < float((rounded.curvature - exact.curvature).abs().max()) < 1e-6
    assert torch.equal(rounded.shape, exact.shape)


def test_each_latent_is_reported_once_and_the_summary_is_one_line() -> None:
    ae = zoo.make("quadratic")
    seen: list[tuple[str, int, int, str]] = []
    found = decompose(ae, on_progress=lambda *report: seen.append(report))
    assert seen == sorted(seen)
    assert seen[-1] == ("geometry", ae.n_latents, ae.n_latents, "")
    assert "\n" not in repr(found)
    assert "tensor" not in repr(found)


def test_mistakes_are_named() -> None:
    known = decompose(zoo.make("atomic"))
    with pytest.raises(ValueError, match="is about other weights"):
        leading_axes(zoo.make("atomic same factors"), 3, known)
    with pytest.raises(ValueError, match="the centre has 5 coordinates; the autoencoder reads d_model=12"):
        decompose(zoo.make("atomic"), centre=torch.zeros(5))
