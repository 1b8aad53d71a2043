"""Motion along level sets: z is kept, motions are groups, paths arrive."""

import math

import pytest
import torch

from quadric.interventions.motion import path_steps, slide_steps

FORMS = {
    "circle": [1.0, 1.0],
    "ellipsoid": [3.0, 1.0, 0.2],
    "negative ellipsoid": [-3.0, -1.0, -0.2],
    "hyperbola": [2.0, -0.5],
    "hyperboloid": [2.0, -1.5, 1.0, -0.1],
    "paraboloid": [2.0, 1.0, 0.0],
    "hyperbolic paraboloid": [2.0, -1.0, 0.0],
}
LINEAR = torch.tensor([0.3, -1.0, 0.8, 0.5]).double()


def setting(name):
    eigenvalues = torch.tensor(FORMS[name]).double()
    y = torch.randn(20, len(eigenvalues), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return eigenvalues, LINEAR[: len(eigenvalues)], y


def value(eigenvalues, linear, y):
    return y.square() @ eigenvalues + y @ linear


def slide(name, y, by, axes):
    eigenvalues, linear, _ = setting(name)
    return y + slide_steps(eigenvalues, 2 * eigenvalues * y + linear, by, axes)


@pytest.mark.parametrize("name", FORMS)
def test_a_slide_keeps_z(name):
    eigenvalues, linear, y = setting(name)
    z = value(eigenvalues, linear, y)
    n_axes = len(eigenvalues)
    for axes in ((i, j) for i in range(n_axes) for j in range(n_axes) if i != j):
        for turn in range(25):
            moved = slide(name, y, 2 * math.pi * turn / 24, axes)
            relative = 1e-8 * max(1, float(moved.square().sum(1).max()))  # a boost by 2π multiplies lengths by 270
            assert float((value(eigenvalues, linear, moved) - z).abs().max()) < relative


@pytest.mark.parametrize("name", ["circle", "ellipsoid", "negative ellipsoid"])
def test_a_full_turn_in_small_steps_keeps_z_and_comes_back(name):
    eigenvalues, linear, y = setting(name)
    moved = y
    for _ in range(360):
        moved = slide(name, moved, 2 * math.pi / 360, (0, 1))
        assert float((value(eigenvalues, linear, moved) - value(eigenvalues, linear, y)).abs().max()) < 1e-8
    torch.testing.assert_close(moved, y, rtol=0, atol=1e-10)
    assert not torch.allclose(slide(name, y, math.pi, (0, 1)), y, atol=0.1)


@pytest.mark.parametrize("name", FORMS)
def test_slides_in_one_plane_are_a_group(name):
    _, _, y = setting(name)
    for axes in ((0, 1), (1, len(FORMS[name]) - 1)):
        if axes[0] != axes[1]:
            torch.testing.assert_close(slide(name, slide(name, y, 0.4, axes), 0.3, axes), slide(name, y, 0.7, axes))


@pytest.mark.parametrize("name", ["ellipsoid", "hyperbola", "hyperboloid"])
def test_a_slide_is_the_exponential_of_a_generator_that_leaves_the_form_alone(name):
    """exp(tA) with A = W⁻¹S, S skew, so that AᵀW + WA = 0."""
    eigenvalues, linear, y = setting(name)
    skew = torch.zeros(len(eigenvalues), len(eigenvalues)).double()
    skew[1, 0] = (eigenvalues[0] * eigenvalues[1]).abs().sqrt() * eigenvalues[1].sign()
    skew[0, 1] = -skew[1, 0]
    generator = skew / eigenvalues[:, None]
    form = eigenvalues.diag()
    assert torch.allclose(generator.mT @ form + form @ generator, torch.zeros_like(form))
    centre = -linear / (2 * eigenvalues)
    expected = centre + (y - centre) @ torch.linalg.matrix_exp(0.6 * generator).mT
    torch.testing.assert_close(slide(name, y, 0.6, (0, 1)), expected)


def two_points(name):
    """Tokens, and other points on their level sets, on the same sheet."""
    eigenvalues, linear, y = setting(name)
    end = slide(name, slide(name, y, 0.9, (0, 1)), -0.5, (1, len(eigenvalues) - 1) if len(eigenvalues) > 2 else (0, 1))
    return eigenvalues, linear, y, end


@pytest.mark.parametrize("name", FORMS)
def test_a_path_keeps_z_and_arrives(name):
    eigenvalues, linear, y, end = two_points(name)
    gradient = 2 * eigenvalues * y + linear
    before = y
    for share in torch.linspace(0, 1, 101).tolist():
        point = y + path_steps(eigenvalues, gradient, end - y, share)
        assert float((value(eigenvalues, linear, point) - value(eigenvalues, linear, y)).abs().max()) < 1e-8
        assert float((point - before).norm(dim=1).max()) < 0.5  # without jumps
        before = point
    torch.testing.assert_close(before, end)
    assert torch.equal(path_steps(eigenvalues, gradient, end - y, 0.0), torch.zeros_like(y))


def test_the_path_on_a_circle_is_the_short_arc():
    eigenvalues, y = torch.ones(2).double(), torch.tensor([[1.0, 0.0]]).double()
    end = torch.tensor([[0.0, -1.0]]).double()
    half = y + path_steps(eigenvalues, 2 * y, end - y, 0.5)
    torch.testing.assert_close(half, torch.tensor([[math.sqrt(0.5), -math.sqrt(0.5)]]).double())


def test_the_path_on_a_hyperbola_is_the_boost():
    eigenvalues, y = torch.tensor([1.0, -1.0]).double(), torch.tensor([[1.0, 0.0]]).double()
    end = torch.tensor([[math.cosh(2), -math.sinh(2)]], dtype=torch.float64)
    third = y + path_steps(eigenvalues, 2 * eigenvalues * y, end - y, 0.25)
    torch.testing.assert_close(third, torch.tensor([[math.cosh(0.5), -math.sinh(0.5)]], dtype=torch.float64))
    through = end + path_steps(eigenvalues, 2 * eigenvalues * end, end * torch.tensor([0.0, -2.0]).double(), 0.5)
    torch.testing.assert_close(through, y)  # from one arm to the other, through the vertex


def test_the_path_on_a_cone_leads_through_its_apex():
    eigenvalues, y = torch.tensor([1.0, -1.0]).double(), torch.tensor([[1.0, 1.0]]).double()
    end = torch.tensor([[-2.0, 2.0]]).double()
    points = [y + path_steps(eigenvalues, 2 * eigenvalues * y, end - y, share) for share in (0.25, 0.5, 0.75, 1.0)]
    expected = torch.tensor([[[0.5, 0.5]], [[0.0, 0.0]], [[-1.0, 1.0]], [[-2.0, 2.0]]]).double()
    torch.testing.assert_close(torch.stack(points), expected)


@pytest.mark.parametrize(("eigenvalues", "y", "end"), [([1, -1], [1, 0], [-1, 0]), ([1, 1], [0, 1], [0, -1])])
def test_no_path_between_two_sheets_or_opposite_points(eigenvalues, y, end):
    values, start, stop = (torch.tensor(x).double() for x in (eigenvalues, [y], [end]))
    assert path_steps(values, 2 * values * start, stop - start, 0.5).isnan().any()
