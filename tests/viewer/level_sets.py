"""Where the surface Σ(quadratic·u² + linear·u) + constant = τ must appear on screen, without the viewer's code.

The viewer solves one quadratic equation per pixel in a shader. Here each pixel's ray is sampled instead, and the
surface is where the form crosses the level.
"""

from dataclasses import dataclass

import numpy as np

EYE, FIT, BOUND = 4.2, 0.76, 1.25
"""Of web/src/scene: distance of the eye, share of the canvas that the unit ball fills, radius at which surfaces end."""
HOME = np.array([-0.22, 0.34, 0.08, 0.91])
STEPS = 4_000


def home_rotation() -> np.ndarray:
    """The rotation matrix of the camera's first position."""
    x, y, z, w = HOME / np.linalg.norm(HOME)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


@dataclass(frozen=True, eq=False)
class View:
    """Three axes of a latent as the viewer frames them on a canvas, seen by the camera's first position."""

    quadratic: np.ndarray
    linear: np.ndarray
    constant: float
    coordinates: np.ndarray
    """One row per point, on the three axes shown."""
    height: int
    width: int

    @property
    def centre(self) -> np.ndarray:
        low, high = self.coordinates.min(0).clip(max=0), self.coordinates.max(0).clip(min=0)
        return (low + high) / 2

    @property
    def radius(self) -> float:
        low, high = self.coordinates.min(0).clip(max=0), self.coordinates.max(0).clip(min=0)
        return float((high - low).max() / 2)

    @property
    def unit(self) -> float:
        """Pixels per unit of the frame at the distance of the frame's middle."""
        return min(self.height, self.width) / 2 * FIT

    def pixel_of(self, coordinates: np.ndarray) -> tuple[int, int]:
        """Row and column where a point is drawn."""
        x, y, z = home_rotation() @ ((coordinates - self.centre) / self.radius)
        near = EYE / (EYE - z)
        return round(self.height / 2 - y * near * self.unit), round(self.width / 2 + x * near * self.unit)

    def form_along_ray(self, row: int, column: int) -> tuple[np.ndarray, np.ndarray]:
        """z at steps along the ray through a pixel, and how far each step is from the middle of the frame."""
        right, up = (column + 0.5 - self.width / 2) / self.unit, (self.height / 2 - row - 0.5) / self.unit
        eye, towards = np.array([0, 0, EYE]), np.array([right, up, -EYE])
        towards = towards / np.linalg.norm(towards)
        places = (eye + np.linspace(EYE - 2 * BOUND, EYE + 2 * BOUND, STEPS)[:, None] * towards) @ home_rotation()
        coordinates = self.centre + self.radius * places
        z = np.square(coordinates) @ self.quadratic + coordinates @ self.linear + self.constant
        return z, np.linalg.norm(places, axis=1)

    def is_covered(self, row: int, column: int, level: float, within: float = BOUND, slack: float = 0.0) -> bool:
        """Whether the ray through a pixel meets the level set in the ball, or comes as close to it as `slack`."""
        z, distance = self.form_along_ray(row, column)
        z = z[distance < within] - level
        return bool(len(z)) and bool(z.min() <= slack) and bool(z.max() >= -slack)
