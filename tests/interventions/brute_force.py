"""Independent ways to the nearest point on a level set, for one token at a time: all stationary points, and SLSQP."""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import minimize


class Problem(NamedTuple):
    """z(y) = Σ λ_j y_j² + β_j y_j, a token and a value."""

    eigenvalues: np.ndarray
    linear: np.ndarray
    token: np.ndarray
    value: float

    def z(self, y: np.ndarray) -> float:
        return float(self.eigenvalues @ y**2 + self.linear @ y)

    @property
    def gradient(self) -> np.ndarray:
        return 2 * self.eigenvalues * self.token + self.linear


KINDS = ("positive", "negative", "indefinite")
LINEAR_PARTS = ("none", "inside", "outside")


def random_problem(rng: np.random.Generator, kind: str, rank: int, linear_part: str) -> Problem:
    """A form of one kind, and a value that it reaches."""
    sizes = rng.uniform(0.1, 3, rank)
    signs = {"positive": np.ones(rank), "negative": -np.ones(rank), "indefinite": rng.choice([-1, 1], rank)}[kind]
    if kind == "indefinite" and rank > 1:
        signs[:2] = 1, -1
    eigenvalues, linear = signs * sizes, np.zeros(rank)
    if linear_part != "none":
        linear = rng.normal(size=rank)
    if linear_part == "outside":
        eigenvalues, linear = np.append(eigenvalues, 0), np.append(linear, rng.normal())
    problem = Problem(eigenvalues, linear, rng.normal(size=len(linear)), 0.0)
    elsewhere = problem.z(3 * rng.normal(size=len(linear)))  # the value of another point, hence reachable
    return problem._replace(value=elsewhere)


def smallest_distance(problem: Problem) -> float:
    """Distance to the nearest of all stationary points: real roots of the secular equation as a polynomial in η."""
    candidates = []
    for root in _secular_polynomial(problem).roots():
        if abs(root.imag) > 1e-3 * (1 + abs(root.real)):
            continue
        eta = _polished(problem, float(root.real))
        point = _point(problem, eta)
        if abs(problem.z(point) - problem.value) < 1e-9 * max(1, abs(problem.value)):
            candidates.append(float(np.linalg.norm(point - problem.token)))
    return min(candidates)


def _point(problem: Problem, eta: float) -> np.ndarray:
    return (problem.token - eta * problem.linear / 2) / (1 + eta * problem.eigenvalues)


def _secular_polynomial(problem: Problem) -> Polynomial:
    """(z(y(η)) − τ) ∏(1 + ηλ_j)²."""
    below = [Polynomial([1, each]) for each in problem.eigenvalues]
    above = [Polynomial([y, -b / 2]) for y, b in zip(problem.token, problem.linear, strict=True)]
    whole = Polynomial([1.0])
    for each in below:
        whole = whole * each**2
    total = -problem.value * whole
    for j, (value, b) in enumerate(zip(problem.eigenvalues, problem.linear, strict=True)):
        others = Polynomial([1.0])
        for k, each in enumerate(below):
            others = others * (each**2 if k != j else 1)
        total = total + (value * above[j] ** 2 + b * above[j] * below[j]) * others
    return total.trim(1e-12 * float(np.abs(total.coef).max()))


def _polished(problem: Problem, eta: float) -> float:
    """A few Newton steps: roots of a polynomial of degree 17 are not accurate."""
    for _ in range(50):
        residual = problem.z(_point(problem, eta)) - problem.value
        slope = -0.5 * float(np.sum(problem.gradient**2 / (1 + eta * problem.eigenvalues) ** 3))
        step = residual / slope
        if abs(step) > 0.1 * (1 + abs(eta)):
            return eta
        eta -= step
    return eta


def distance_by_slsqp(problem: Problem, rng: np.random.Generator, starts: int = 8) -> float:
    """The best of several local optimizations."""
    found = []
    for _ in range(starts):
        result = minimize(
            lambda y: np.sum((y - problem.token) ** 2),
            problem.token + rng.normal(size=len(problem.token)),
            jac=lambda y: 2 * (y - problem.token),
            constraints={
                "type": "eq",
                "fun": lambda y: problem.z(y) - problem.value,
                "jac": lambda y: 2 * problem.eigenvalues * y + problem.linear,
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 100},
        )
        if abs(problem.z(result.x) - problem.value) < 1e-8:
            found.append(float(np.linalg.norm(result.x - problem.token)))
    return min(found)
