"""`ae.latent(i)` on activations: values, norms, precision, what stays untouched, and errors."""

import math
from types import SimpleNamespace

import pytest
import torch

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.interventions import Intervention, Latent
from quadric.interventions.latents import clamp
from tests import zoo
from tests.geometry.centred import SETTINGS, centre_for
from tests.geometry.linear_dictionary import N_LATENTS, tokens, topk

X = zoo.tokens()
NORMS = X.norm(dim=1)


def latent_of(variety, where, index=5) -> Latent:
    centre = centre_for(where)
    return zoo.make(variety).latent(index, centre=None if centre is None else centre.mean)


def reachable(latent: Latent) -> float:
    """A value that every token can be moved to."""
    found = latent.reach(X)
    low, high = float(found.low.max()), float(found.high.min())
    if low > -math.inf:
        return low + 0.3
    return 0.3 if high == math.inf else high - 0.3


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_every_intervention_does_what_it_says_and_nothing_else(variety, where):
    latent = latent_of(variety, where)
    basis = latent.axes.basis
    z, value = latent.value(X), reachable(latent)
    moved = {
        "project": latent.project(X, to=value),
        "ablate": latent.ablate(X),
        "scale": latent.scale(X, by=1.7),
    }
    if len(latent.axes.eigenvalues) > 1:
        moved["slide"] = latent.slide(X, by=0.8)
    for name, result in moved.items():
        change = (result - X) / NORMS[:, None]
        torch.testing.assert_close(change @ basis @ basis.mT, change, atol=1e-12, rtol=0, msg=name)
        assert change.abs().max() > 1e-3, name
    at_value = latent.value(moved["project"], norms=NORMS)
    assert float((at_value - value).abs().max()) < 1e-8
    if "slide" in moved:
        assert float((latent.value(moved["slide"], norms=NORMS) - z).abs().max()) < 1e-8
    placed = latent.axes.place(moved["ablate"] / NORMS[:, None])
    assert float(placed.coordinates.abs().max()) < 1e-12
    before, after = (latent.axes.place(x / NORMS[:, None]).coordinates for x in (X, moved["scale"]))
    torch.testing.assert_close(after, 1.7 * before)


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_a_change_of_nothing_returns_the_same_bits(variety, where):
    latent = latent_of(variety, where)
    x = X.clone()
    x[:, 0] = -0.0
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        given = x.to(dtype)
        results = [latent.project(given, to=lambda z: z), latent.scale(given, by=1.0)]
        if len(latent.axes.eigenvalues) > 1:
            results.append(latent.slide(given, by=0.0))
        for result in results:
            assert torch.equal(result, given)
            assert torch.equal(result.signbit(), given.signbit())


def test_the_value_is_that_at_the_norm_of_the_original():
    """x + δ has another norm than x, so z of its own unit token differs: by the factor of the norms for a raw form."""
    latent = zoo.make("atomic").latent(0)
    moved = latent.project(X, to=0.5)
    own = latent.value(moved)
    torch.testing.assert_close(own * (moved.norm(dim=1) / NORMS) ** 2, torch.full((30,), 0.5).double())
    assert float((own - 0.5).abs().max()) > 0.05


def test_an_affine_lens_ablates_to_the_mean_token():
    ae = zoo.make("atomic affine")
    basis = ae.latent(0).axes.basis
    zero, mean = ae.latent(0).ablate(X), ae.latent(0).ablate(X, mode="mean")
    assert torch.equal(zero, mean)
    torch.testing.assert_close(zero / NORMS[:, None] @ basis, (ae.lens.centre @ basis).expand(30, -1))


def test_a_raw_dictionary_ablates_to_nothing_or_with_a_centre_to_the_mean():
    ae, centre = zoo.make("atomic"), centre_for("centre").mean
    raw = ae.latent(0).ablate(X)
    assert float((raw @ ae.latent(0).axes.basis).abs().max()) < 1e-10
    assert float(ae.latent(0).value(raw, norms=NORMS).abs().max()) < 1e-12
    with pytest.raises(ValueError, match=r"mean of the tokens is unknown.*ae\.latent\(0, centre="):
        ae.latent(0).ablate(X, mode="mean")
    centred = ae.latent(0, centre=centre)
    torch.testing.assert_close(centred.ablate(X, mode="mean") @ centre, X @ centre)  # along the mean nothing moves


def test_ablation_to_the_value_at_rest():
    latent = zoo.make("atomic affine").latent(3)
    rest = float(latent.value(X).median())
    result = latent.ablate(X, mode="rest", rest=rest)
    assert float((latent.value(result, norms=NORMS) - rest).abs().max()) < 1e-8
    signs, medians = -torch.ones(24), torch.full((24,), -rest, dtype=torch.float64)
    evidence = SimpleNamespace(calibration=SimpleNamespace(signs=signs, rest=medians))  # shown with the other sign
    torch.testing.assert_close(latent.ablate(X, mode="rest", rest=evidence), result)
    for wrong in ({"mode": "rest"}, {"mode": "zero", "rest": 0.1}):
        with pytest.raises(ValueError, match="do not go together"):
            latent.ablate(X, **wrong)


def test_targets_per_token_and_as_functions():
    latent = zoo.make("quadratic affine").latent(1)
    z = latent.value(X)
    wanted = torch.linspace(-0.3, 0.4, 30, dtype=torch.float64)
    torch.testing.assert_close(latent.value(latent.project(X, to=wanted), norms=NORMS), wanted)
    torch.testing.assert_close(latent.value(latent.project(X, to=lambda z: 2 * z), norms=NORMS), 2 * z)
    clamped = latent.project(X, to=lambda z: z.clamp(max=0.0))
    assert torch.equal(clamped[z <= 0], X[z <= 0])
    with pytest.raises(ValueError, match=r"one for each of 30 tokens"):
        latent.project(X, to=wanted[:4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_results_have_the_precision_of_the_activations(dtype):
    latent, x = zoo.make("atomic", torch.float32).latent(0), X.to(dtype)
    result = latent.project(x, to=0.5)
    assert result.dtype == dtype
    error = (latent.value(result, norms=x.double().norm(dim=1)) - 0.5).abs().max()
    assert float(error) < {torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float64: 1e-8}[dtype]


@pytest.mark.parametrize("variety", ["atomic", "quadratic", "quadratic affine"])
def test_a_path_keeps_z_and_ends_nearest_to_the_other_token(variety):
    latent = zoo.make(variety).latent(1)
    end = latent.slide(X, by=0.4) + 0.01 * X.roll(1, dims=1)
    points = latent.path(X, end, [0.0, 0.3, 1.0])
    assert torch.equal(points[0], X)
    for point in points:
        assert float((latent.value(point, norms=NORMS) - latent.value(X)).abs().max()) < 1e-8
    unit = end / end.norm(dim=1, keepdim=True) * NORMS[:, None]
    away = (points @ latent.axes.basis - unit @ latent.axes.basis).norm(dim=-1) / NORMS
    assert (away[2] < away[1]).all()
    assert (away[1] < away[0]).all()


def test_no_path_between_the_two_sides_of_a_slab():
    latent = zoo.make("atomic same factors").latent(0)
    with pytest.raises(ValueError, match=r"no path joins .* choose another end"):
        latent.path(X, -X, [0.5])


def test_an_unreachable_value_names_the_range():
    latent = zoo.make("atomic same factors").latent(2)
    with pytest.raises(
        ValueError, match=r"latent 2 cannot take the value -0\.5: it reaches .* … ∞; give a value"
    ) as caught:
        latent.project(X, to=-0.5)
    assert "\n" not in str(caught.value)
    nearest = latent.project(X, to=-0.5, unreachable="nearest")
    assert float(latent.value(nearest, norms=NORMS).abs().max()) < 1e-12
    assert float(latent.reach(X).low.abs().max()) < 1e-12
    end = latent.project(
        X, to=0.0
    )  # the end of the range itself; at a minimum, distance is the square root of rounding
    assert float(((end - nearest).norm(dim=1) / NORMS).max()) < 1e-7


def test_an_empty_latent_is_refused():
    ae = BilinearAutoencoder(d_model=8, n_latents=3, prior="quadratic")
    with torch.no_grad():
        ae.mixing.weight[1] = 0
    with pytest.raises(ValueError, match=r"latent 1 is empty.*choose another"):
        ae.latent(1)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda ae: ae.latent(0).slide(X, by=1.0, axes=(0, 2)), r"two different axes of latent 0, 0 … 1"),
        (lambda ae: ae.latent(0).slide(X, by=1.0, axes=(1, 1)), "two different axes"),
        (lambda ae: ae.latent(0).slide(X, by=math.inf), "by=inf is not a finite number"),
        (lambda ae: ae.latent(0).slide(X, by=2000.0), "beyond all bounds; use a smaller value"),
        (lambda ae: ae.latent(0).project(X, to=math.nan), "to=nan is not a finite number"),
        (lambda ae: ae.latent(0).project(X, to=lambda z: z / 0), "to has values that are not finite"),
        (lambda ae: ae.latent(0).ablate(X[:, :5]), r"expected \(n, 12\)"),
        (lambda ae: ae.latent(0).ablate(0 * X), "token 0 is all zero"),
        (lambda ae: zoo.make("atomic same factors").latent(0).slide(X, by=1.0), "has one axis.*use project"),
        (
            lambda ae: quadric.interventions.Latent(quadric.TopKAutoencoder(d_model=8, n_latents=4, n_active=1), 0),
            "bilinear",
        ),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call(zoo.make("atomic"))


def test_without_activations_an_intervention_is_returned():
    latent = zoo.make("atomic").latent(0)
    later = latent.project(to=0.5)
    assert isinstance(later, Intervention)
    assert repr(later) == "latent(0).project(to=0.5)"
    assert torch.equal(later(X), latent.project(X, to=0.5))
    assert "Latent 0 of 24" in repr(latent)


def test_gradients_pass_through():
    x = X.clone().requires_grad_()
    zoo.make("atomic").latent(0).project(x, to=0.5).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(X))


# Clamping: what is missing along the decoder's row is added, at the token's own length, and nothing else.


def test_only_the_latents_own_contribution_changes():
    ae, x = topk(), tokens(20)
    z = ae.encode(ae.prepare(x))
    d = ae.decoder.detach()[3]
    expected = x + (0.7 - z[:, 3:4]).detach() * x.norm(dim=1, keepdim=True) * d
    torch.testing.assert_close(clamp(ae, 3, to=0.7)(x), expected, atol=1e-5, rtol=1e-5)


def test_zero_takes_out_what_the_latent_adds_and_leaves_silent_tokens_alone():
    ae, x = topk(), tokens(200)
    z = ae.encode(ae.prepare(x))[:, 3]
    assert (z == 0).any()
    assert (z > 0).any()
    moved = clamp(ae, 3, to=0.0)(x)
    torch.testing.assert_close(moved[z == 0], x[z == 0], atol=0, rtol=0)
    assert (moved[z > 0] != x[z > 0]).any(1).all()


def test_a_dictionary_of_orthonormal_directions_reads_the_clamped_value_back():
    ae = TopKAutoencoder(d_model=6, n_latents=6, n_active=6).eval()
    with torch.no_grad():
        ae.encoder.copy_(torch.eye(6))
        ae.decoder.copy_(torch.eye(6))
    x = torch.rand(9, 6) + 0.1
    unit = clamp(ae, 2, to=0.4)(x) / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(ae.encode(unit)[:, 2], torch.full((9,), 0.4))


def test_dtype_is_kept_and_mistakes_are_named():
    ae = topk()
    assert clamp(ae, 0, 1.0)(tokens(3).bfloat16()).dtype == torch.bfloat16
    with pytest.raises(IndexError, match="latent 14 is outside 0 … 13"):
        clamp(ae, N_LATENTS, 0.0)
