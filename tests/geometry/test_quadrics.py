"""Forms made by hand from known quadrics, plus an offset, are read back exactly."""

import math

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric import BilinearAutoencoder
from quadric.geometry import Form, decompose, latent_form, read
from quadric.geometry.axes import EIGENVECTOR, NO_AXIS
from quadric.geometry.quadrics import AffineForm, form_frame, latent_frame, lens_affine_form, read_quadric
from quadric.model.lens import AffineLens
from tests import zoo
from tests.geometry.centred import SETTINGS, centre_for
from tests.geometry.examples import by_hand
from tests.geometry.linear_dictionary import N_LATENTS, centre_of, tokens, topk

D = 7


def frame(d: int = D, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q


def known(
    eigenvalues: list[float], centre: list[float], opens: float = 0.0, at_centre: float = 0.3, scale: float = 0.4
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W̃ = [[Q, b/2], [bᵀ/2, a]] of Σλ_j(q_j·(v − v₀))² + c·b_⊥·v + z₀, its axes and its centre."""
    axes = frame()
    own = axes[:, : len(eigenvalues)]
    values = torch.tensor(eigenvalues, dtype=torch.float64)
    v0 = own @ torch.tensor(centre, dtype=torch.float64)
    quadratic = own @ values.diag() @ own.mT
    linear = -2 / scale * quadratic @ v0 + opens * axes[:, -1]
    constant = (at_centre + v0 @ quadratic @ v0) / scale**2
    lifted = torch.zeros(D + 1, D + 1, dtype=torch.float64)
    lifted[:-1, :-1], lifted[:-1, -1], lifted[-1, :-1], lifted[-1, -1] = quadratic, linear / 2, linear / 2, constant
    return lifted, own, v0


CASES = [
    ([4.0], [0.5], 0.0, "slab"),
    ([4.0, 4.0], [0.5, -0.2], 0.0, "ellipsoid"),
    ([-4.0, -1.0, -2.0], [0.1, 0.2, 0.3], 0.0, "ellipsoid"),
    ([4.0, -2.0], [0.0, 0.0], 0.0, "hyperboloid"),
    ([4.0, 2.0], [0.1, 0.2], 9.0, "elliptic paraboloid"),
    ([4.0, -2.0, 1.0], [0.1, 0.2, 0.0], 9.0, "hyperbolic paraboloid"),
    ([], [], 3.0, "half-space"),
]


@pytest.mark.parametrize(("eigenvalues", "centre", "opens", "shape"), CASES)
def test_a_known_quadric_is_read_back(eigenvalues: list[float], centre: list[float], opens: float, shape: str) -> None:
    lifted, own, v0 = known(eigenvalues, centre, opens)
    found = read_quadric(lens_affine_form(lifted, 0.4))
    assert found.shape == shape
    assert_close(found.centre, v0)
    assert found.value_at_centre == pytest.approx(0.3)
    assert sorted(found.eigenvalues.tolist()) == pytest.approx(sorted(eigenvalues))
    assert sorted(found.radii.tolist()) == pytest.approx(sorted(1 / math.sqrt(abs(value)) for value in eigenvalues))
    assert_close(found.axes @ found.axes.mT, own @ own.mT)
    assert_close(found.direction, opens * frame()[:, -1])


def test_the_level_set_passes_where_the_formula_says() -> None:
    lifted, *_ = known([4.0, 1.0], [0.5, -0.2])
    found = read_quadric(lens_affine_form(lifted, 0.4))
    angles = torch.linspace(0, 2 * math.pi, 12, dtype=torch.float64)
    ellipse = torch.stack([angles.cos(), angles.sin()], 1) * found.radii
    points = found.centre + ellipse @ found.axes.mT
    assert_close(found.form(points), torch.full((12,), found.value_at_centre + 1.0, dtype=torch.float64))


@pytest.mark.parametrize(("eigenvalues", "centre", "opens", "shape"), CASES)
def test_the_same_quadric_in_a_raw_dictionary_with_an_offset(
    eigenvalues: list[float], centre: list[float], opens: float, shape: str
) -> None:
    """Raw tokens u = αm + y: the form on [y; α] is a raw matrix, and its centre comes by argument."""
    scale = 0.4
    lifted, _, v0 = known(eigenvalues, centre, opens, scale=scale)
    basis = frame(D + 1, seed=5)
    across, m = basis[:, :-1], basis[:, -1]
    raw = torch.cat([across, m[:, None]], 1) @ lifted @ torch.cat([across, m[:, None]], 1).mT
    where = quadric.geometry.Centre(scale * m, torch.eye(D + 1, dtype=torch.float64))
    found = quadric.geometry.read(raw_dictionary_of(raw), 0, where)
    assert found.shape == shape
    assert_close(found.centre, across @ v0)
    assert found.value_at_centre == pytest.approx(0.3)
    assert sorted(found.radii.tolist()) == pytest.approx(sorted(1 / math.sqrt(abs(value)) for value in eigenvalues))
    y = torch.randn(20, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u = y @ across.mT + scale * m
    assert_close(found.form(y @ across.mT), torch.einsum("nd,de,ne->n", u, raw, u))


def raw_dictionary_of(matrix: torch.Tensor) -> quadric.BilinearAutoencoder:
    """A raw dictionary with one latent, of that form."""
    values, vectors = torch.linalg.eigh(matrix)
    return by_hand(vectors.mT, vectors.mT, values[None])


def raw_dictionary(scale: float) -> tuple[quadric.BilinearAutoencoder, torch.Tensor]:
    """Every known quadric as one latent of a raw dictionary, made of the eigenvectors of its matrix, and its centre."""
    basis = frame(D + 1, seed=5)
    raw = torch.stack(
        [basis @ known(values, centre, opens, scale=scale)[0] @ basis.mT for values, centre, opens, _ in CASES]
    )
    eigenvalues, eigenvectors = torch.linalg.eigh(raw)
    k, h = len(CASES), len(CASES) * (D + 1)
    settings = quadric.Quadratic(n_latents=k, n_hidden=h, lens="paper", same_factors=True)
    ae = quadric.BilinearAutoencoder(settings, d_model=D + 1).double()
    with torch.no_grad():
        ae.left.copy_(eigenvectors.mT.reshape(h, D + 1))
        ae.mixing.weight.copy_(torch.block_diag(*eigenvalues[:, None]))
    return ae, scale * basis[:, -1]


def test_a_raw_dictionary_made_by_hand_is_read_back_exactly() -> None:
    """Shape, centre, radii and curvature of every latent, from the table of the dictionary and one by one."""
    scale = 0.4
    ae, mean = raw_dictionary(scale)
    across = frame(D + 1, seed=5)[:, :-1]
    covariance = 0.05 * across @ torch.linspace(1, 3, D).double().diag() @ across.mT
    table = quadric.geometry.statistics(ae, centre=quadric.geometry.Centre(mean, covariance))
    assert table.shape == tuple(shape for *_, shape in CASES)
    for latent, (eigenvalues, centre, opens, shape) in enumerate(CASES):
        lifted, own, v0 = known(eigenvalues, centre, opens, scale=scale)
        found = quadric.geometry.read(ae, latent, quadric.geometry.Centre(mean, covariance))
        assert found.shape == shape
        assert_close(found.centre, across @ v0)
        assert found.value_at_centre == pytest.approx(0.3)
        assert sorted(found.eigenvalues.tolist()) == pytest.approx(sorted(eigenvalues))
        assert sorted(found.radii.tolist()) == pytest.approx(sorted(1 / math.sqrt(abs(value)) for value in eigenvalues))
        assert_close(found.axes @ found.axes.mT, across @ own @ own.mT @ across.mT)
        assert_close(found.direction, opens * across @ frame()[:, -1], atol=1e-9, rtol=0)
        assert_close(found.quadratic, across @ lifted[:-1, :-1] @ across.mT)
        assert_close(found.linear, 2 * scale * across @ lifted[:-1, -1])
        assert found.constant == pytest.approx(scale**2 * float(lifted[-1, -1]))
        spread = 0.05 * torch.linspace(1, 3, D).double().diag()
        product = lifted[:-1, :-1] @ spread
        curved = 2 * float((product @ product).trace())
        sloped = 4 * scale**2 * float(lifted[:-1, -1] @ spread @ lifted[:-1, -1])
        assert found.curvature == pytest.approx(curved / (curved + sloped))
        assert float(table.curvature[latent]) == pytest.approx(found.curvature)


def test_mean_times_a_direction_is_a_half_space_and_not_a_hyperboloid() -> None:
    """The artefact that half of a raw dictionary consists of: (μ̂·x)(v·x) has eigenvalues ±½ and is linear."""
    m, v = frame()[:, 0], frame()[:, 1]
    raw = (m.outer(v) + v.outer(m)) / 2
    assert torch.linalg.eigvalsh(raw).abs().max() == pytest.approx(0.5)
    found = quadric.geometry.read(raw_dictionary_of(raw), 0, 0.7 * m)
    assert found.shape == "half-space"
    assert found.curvature == pytest.approx(0, abs=1e-12)
    assert_close(found.direction / found.direction.norm(), v)


def test_curvature_is_the_share_of_variance_that_no_linear_function_explains() -> None:
    lifted, _, _ = known([2.0, -1.0], [0.3, 0.1], opens=1.0)
    generator = torch.Generator().manual_seed(3)
    mixing = torch.randn(D, D, generator=generator, dtype=torch.float64)
    v = torch.randn(400_000, D, generator=generator, dtype=torch.float64) @ mixing
    found = read_quadric(lens_affine_form(lifted, 0.4), mixing.mT @ mixing)
    z = found.form(v)
    design = torch.cat([v, torch.ones(len(v), 1, dtype=torch.float64)], 1)
    residual = z - design @ torch.linalg.lstsq(design, z[:, None]).solution[:, 0]
    assert found.curvature == pytest.approx(float(residual.var() / z.var()), abs=0.01)


def test_small_eigenvalues_count_as_zero_by_their_share() -> None:
    lifted, *_ = known([1.0, 1.0, -0.02], [0.0, 0.0, 0.0])
    assert read_quadric(lens_affine_form(lifted, 0.4)).shape == "ellipsoid"
    assert read_quadric(lens_affine_form(lifted, 0.4), tolerance=0.0001).shape == "hyperboloid"


def test_the_shape_keeps_all_but_the_tolerance_of_the_variance() -> None:
    """Over Gaussian tokens; of the linear part, the shape leaves out what has less than the tolerance too."""
    lifted, *_ = known([1.0, -0.5, 0.12, -0.05], [0.4, 0.0, -0.3, 0.2])
    form = lens_affine_form(lifted, 0.4)
    tokens = torch.randn(200_000, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for tolerance in (0.001, 0.02, 0.2):
        found = read_quadric(form, tolerance=tolerance)
        shown = (tokens @ found.axes - found.centre @ found.axes).square() @ found.eigenvalues
        shown = shown + form.scale * tokens @ found.direction
        left_out = float((form(tokens) - shown).var() / form(tokens).var())
        assert left_out <= 2 * tolerance * 1.05  # eigenvalues and linear part each; 5 % for the sample


def test_empty_and_constant_forms() -> None:
    nothing = torch.zeros(D + 1, D + 1, dtype=torch.float64)
    assert read_quadric(lens_affine_form(nothing, 0.4)).shape == "empty"
    nothing[-1, -1] = 2.0
    constant = read_quadric(lens_affine_form(nothing, 0.4))
    assert constant.shape == "constant"
    assert constant.value_at_centre == pytest.approx(2 * 0.4**2)


def test_a_centre_at_the_origin_leaves_the_raw_form_as_it_is() -> None:
    raw = torch.diag(torch.tensor([3.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64))
    found = quadric.geometry.read(raw_dictionary_of(raw), 0, torch.zeros(D, dtype=torch.float64))
    assert found.shape == "ellipsoid"
    assert isinstance(found.form, AffineForm)
    assert len(repr(found)) < 120


def test_a_latent_of_an_affine_lens_is_read_about_the_lenss_own_centre() -> None:
    lifted, _, v0 = known([4.0, 2.0], [0.1, 0.2], opens=9.0)
    lens = AffineLens(0.7 * frame()[:, 2], torch.tensor(0.4).double(), torch.eye(D).double() / D, torch.tensor(9))
    values, vectors = torch.linalg.eigh(lifted)
    ae = quadric.BilinearAutoencoder(
        d_model=D, n_latents=1, n_hidden=D + 1, prior="quadratic", same_factors=True, lens=lens, dtype=torch.float64
    )
    with torch.no_grad():
        ae.left.copy_(vectors.mT)
        ae.mixing.weight.copy_(values[None])
    found = quadric.geometry.read(ae, 0)
    assert found.shape == "elliptic paraboloid"
    assert_close(found.centre, v0)
    assert quadric.geometry.read(ae, 0, centre=torch.ones(D)).curvature == found.curvature
    x = torch.randn(30, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(found.form(lens(x)[:, :-1]), ae.encode(x)[:, 0].detach())
    with pytest.raises(IndexError, match="latent 1 is outside"):
        quadric.geometry.read(ae, 1)


def test_read_takes_the_form_of_a_latent_and_says_how_curved_it_is() -> None:
    """The mean times a direction is a half-space about the mean, and a hyperboloid about the origin."""
    ae = quadric.BilinearAutoencoder(d_model=D, n_latents=2, prior="atomic")
    m, v = frame()[:, 0].float(), frame()[:, 1].float()
    with torch.no_grad():
        ae.left[0], ae.right[0] = m, v
        ae.left[1], ae.right[1] = v, v
    assert quadric.geometry.read(ae, 0).shape == "hyperboloid"
    about_mean = quadric.geometry.read(ae, 0, centre=0.7 * m)
    assert (about_mean.shape, about_mean.curvature) == ("half-space", pytest.approx(0, abs=1e-9))
    slab = quadric.geometry.read(ae, 1, centre=0.7 * m)
    assert (slab.shape, slab.curvature) == ("slab", pytest.approx(1))


# One latent alone has the axes, coefficients and shape that it has among all.


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_a_form_alone_has_the_frame_that_it_has_among_all(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    every = decompose(ae, 3, centre=centre)
    for latent in (0, ae.n_latents - 1):
        frame = latent_frame(ae, latent, 3, centre)
        values = every.eigenvalues[latent]
        assert_close(frame.eigenvalues, values[values != 0], atol=1e-12, rtol=1e-6)
        assert frame.axis_kind.tolist() == every.axis_kind[latent].tolist()
        assert_close(frame.axes.float(), every.axes[latent], atol=1e-5, rtol=0)
        assert_close(frame.axis_linear, every.axis_linear[latent], atol=1e-6, rtol=1e-6)
        assert_close(frame.linear, read(ae, latent, centre).linear, atol=1e-9, rtol=1e-6)
        assert frame.constant == pytest.approx(float(every.constant[latent]))
        assert frame.shape == every.readings.shape_of(latent, every.tolerance)
        assert frame.curvature == pytest.approx(float(every.readings.curvature[latent]), abs=1e-9)


def test_a_direction_alone_has_the_frame_that_it_has_among_all():
    ae, centre = topk(), centre_of(tokens())
    every = decompose(ae, 5, centre=centre)
    for latent in (0, N_LATENTS - 1):
        frame = latent_frame(ae, latent, 5, centre)
        torch.testing.assert_close(frame.axes.float(), every.axes[latent])
        torch.testing.assert_close(frame.axis_linear, every.axis_linear[latent])
        assert frame.constant == pytest.approx(float(every.constant[latent]))
        assert frame.axis_kind.tolist() == every.axis_kind[latent].tolist()
        assert (frame.shape.kind, frame.curvature, len(frame.eigenvalues)) == ("half-space", 0, 0)
        torch.testing.assert_close(frame.linear, ae.encoder.detach()[latent].double())


def test_the_other_sign_turns_values_and_signature_but_no_axis() -> None:
    frame = latent_frame(zoo.make("quadratic affine"), 2)
    turned = frame.with_sign(-1.0)
    assert torch.equal(turned.axes, frame.axes)
    assert torch.equal(turned.eigenvalues, -frame.eigenvalues)
    assert torch.equal(turned.axis_quadratic, -frame.axis_quadratic)
    assert torch.equal(turned.linear, -frame.linear)
    assert (turned.constant, turned.shape.positive) == (-frame.constant, frame.shape.negative)
    assert frame.with_sign(1.0) is frame


def test_a_form_is_read_about_the_origin() -> None:
    plane = Form.total([Form.of_direction(axis) for axis in torch.eye(5)[:2]])
    frame = form_frame(plane, 3)
    assert frame.eigenvalues.tolist() == pytest.approx([1, 1])
    assert frame.axis_kind.tolist() == [EIGENVECTOR, EIGENVECTOR, NO_AXIS]
    assert (frame.shape.figure, frame.constant, frame.linear.any().item()) == ("circle", 0, False)
    ae = BilinearAutoencoder(d_model=6, n_latents=4, prior="atomic")
    assert_close(form_frame(latent_form(ae, 1)).axis_quadratic, latent_frame(ae, 1).axis_quadratic)
