"""Motion along level sets: z is kept, motions are groups, paths arrive."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from quadric.interventions.motion import nearest_steps, path_steps, reach, slide_steps
from tests.interventions.brute_force import (
    KINDS,
    LINEAR_PARTS,
    Problem,
    distance_by_slsqp,
    random_problem,
    smallest_distance,
)

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


# The nearest point with a given value, against independent optimizers.


CASES = list(itertools.product(KINDS, range(1, 9), LINEAR_PARTS))
FORMS_PER_CASE = 14


def solve(problem: Problem) -> tuple[np.ndarray, bool]:
    rise = torch.tensor([problem.value - problem.z(problem.token)], dtype=torch.float64)
    found = nearest_steps(torch.tensor(problem.eigenvalues), torch.tensor(problem.gradient)[None], rise)
    return found.steps[0].numpy(), bool(found.reached[0])


def test_there_are_a_thousand_forms():
    assert len(CASES) * FORMS_PER_CASE >= 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linear_part", LINEAR_PARTS)
def test_distance_is_the_smallest_of_all_stationary_points(kind, linear_part):
    rng = np.random.default_rng([KINDS.index(kind), LINEAR_PARTS.index(linear_part)])
    for rank in range(1, 9):
        for _ in range(FORMS_PER_CASE):
            problem = random_problem(rng, kind, rank, linear_part)
            step, reached = solve(problem)
            assert reached
            assert problem.z(problem.token + step) == pytest.approx(problem.value, abs=1e-10, rel=1e-10)
            assert np.linalg.norm(step) == pytest.approx(smallest_distance(problem), abs=1e-6)


@pytest.mark.parametrize(("kind", "rank", "linear_part"), CASES[::5])
def test_an_optimizer_finds_nothing_nearer(kind, rank, linear_part):
    rng = np.random.default_rng(rank)
    problem = random_problem(rng, kind, rank, linear_part)
    step, _ = solve(problem)
    assert np.linalg.norm(step) == pytest.approx(distance_by_slsqp(problem, rng), abs=1e-6)


@pytest.mark.parametrize(
    ("eigenvalues", "linear", "token", "value"),
    [
        ([2.0, 1.0], [0, 0], [0.0, 0.0], 3.0),  # at the centre of an ellipse
        ([2.0, 1.0], [0, 0], [0.0, 1.0], 9.0),  # on the short axis, and the nearest point is not on it
        ([2.0, 2.0, 1.0], [0, 0, 0], [0.0, 0.0, 0.5], 9.0),  # the extreme eigenvalue is double
        ([2.0, -1.0], [0, 0], [0.0, 0.7], 1.0),  # the token has the other sign only
        ([2.0, -1.0], [0, 0], [0.7, 0.0], -1.0),
        ([2.0, -1.0], [0, 0], [0.0, 0.0], -1.0),  # apex of the cone
        ([1.5], [0], [0.0], 2.0),  # rank 1, in the middle of the slab
        ([2.0, 1.0], [-4.0, 1.0], [1.0, 0.2], 9.0),  # on an axis of an ellipse with centre (1, −½)
        ([2.0, -0.5, 0.0], [0, 0, 1.0], [0.0, 0.3, 0.1], 40.0),  # on the axis of a paraboloid
    ],
)
def test_tokens_on_an_axis(eigenvalues, linear, token, value):
    """The hard case: the gradient vanishes on the extreme eigenvector, where no root of the equation may exist."""
    problem = Problem(np.array(eigenvalues), np.array(linear, dtype=float), np.array(token), value)
    step, reached = solve(problem)
    assert reached
    assert problem.z(problem.token + step) == pytest.approx(value, abs=1e-10)
    rng = np.random.default_rng(0)
    assert np.linalg.norm(step) == pytest.approx(distance_by_slsqp(problem, rng), abs=1e-6)


@pytest.mark.parametrize("off", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 1e-100, 1e-200])
def test_the_hard_case_is_approached_without_loss(off):
    hard = Problem(np.array([2.0, 1.0]), np.zeros(2), np.array([0.0, 1.0]), 9.0)
    near = hard._replace(token=np.array([off, 1.0]))
    step, _ = solve(near)
    assert near.z(near.token + step) == pytest.approx(9.0, abs=1e-10)
    assert step[0] > 0
    assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(solve(hard)[0]), abs=3 * off + 1e-9)


def test_a_half_space_is_reached_along_its_normal():
    step, reached = solve(Problem(np.zeros(1), np.array([-4.0]), np.array([1.0]), 6.0))
    assert reached
    assert step.tolist() == [-2.5]


def test_a_definite_form_stops_at_its_centre():
    eigenvalues, linear, token = np.array([2.0, 1.0]), np.array([4.0, -2.0]), np.array([0.3, 0.2])
    centre = -linear / (2 * eigenvalues)
    problem = Problem(eigenvalues, linear, token, 0.0)
    lowest = problem.z(centre)
    found = reach(
        torch.tensor(eigenvalues), torch.tensor(problem.gradient)[None], torch.tensor([problem.z(token)]).double()
    )
    assert float(found.low) == pytest.approx(lowest)
    assert float(found.high) == torch.inf
    step, reached = solve(problem._replace(value=lowest))
    assert reached
    assert token + step == pytest.approx(centre)
    step, reached = solve(problem._replace(value=lowest - 0.01))
    assert not reached
    assert token + step == pytest.approx(centre)


def test_a_negative_form_is_bounded_above():
    found = reach(
        torch.tensor([-2.0, -1.0]).double(), torch.tensor([[4.0, 2.0]]).double(), torch.tensor([-3.0]).double()
    )
    assert (float(found.low), float(found.high)) == (-torch.inf, 0.0)


def test_no_rise_is_no_step_at_all():
    gradient = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).double()
    steps = nearest_steps(torch.tensor([1.0, -2.0, 0.0]).double(), gradient, torch.zeros(5).double()).steps
    assert torch.equal(steps, torch.zeros_like(steps))


def test_tokens_are_solved_independently():
    generator = torch.Generator().manual_seed(1)
    eigenvalues = torch.tensor([2.0, -1.0, 0.5, 0.0]).double()
    gradient = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    rise = 10 ** torch.randn(50, generator=generator, dtype=torch.float64)
    together = nearest_steps(eigenvalues, gradient, rise).steps
    alone = torch.cat([nearest_steps(eigenvalues, gradient[[i]], rise[[i]]).steps for i in range(50)])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=0)


NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(arrays.arrays(np.float64, 4, elements=NUMBERS), arrays.arrays(np.float64, 4, elements=NUMBERS), NUMBERS)
def test_any_form_and_value_gives_a_finite_step_that_arrives(eigenvalues, gradient, rise):
    eigenvalues = np.where(np.abs(eigenvalues) < 1e-6, 0, eigenvalues)
    gradient = np.where(np.abs(gradient) < 1e-6, 0, gradient)
    found = nearest_steps(
        torch.tensor(eigenvalues), torch.tensor(gradient)[None], torch.tensor([rise], dtype=torch.float64)
    )
    step = found.steps[0].numpy()
    assert np.isfinite(step).all()
    if found.reached:
        terms = np.abs(gradient * step) + np.abs(eigenvalues * step**2)
        assert gradient @ step + eigenvalues @ step**2 == pytest.approx(rise, abs=1e-9 * (1e-9 + terms.sum()))
