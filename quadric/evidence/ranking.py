"""Which latents to look at first: curved, sparse and distinct ones; among directions, sparse and distinct ones."""

import numpy as np
from jaxtyping import Float32

from quadric.evidence.record import Evidence
from quadric.geometry import Redundancy

DENSE = 0.5
"""Hoyer density above which a latent is dense, as in `quadric.evaluate`."""
RANKING = (
    "measured curvature · (1 − density) · √(mean (z − rest)², relative to the median latent); "
    "0 for empty and dense latents (density > 0.5) and for copies"
)

RANKING_OF_DIRECTIONS = RANKING.removeprefix("measured curvature · ")
"""Of a linear dictionary, where the share that no linear function explains is its gate's doing, not a curved form's."""


def worth(evidence: Evidence, redundancy: Redundancy, *, is_linear: bool = False) -> Float32[np.ndarray, " k"]:
    """How much each latent is worth a look, by the rule of `RANKING`, or of `RANKING_OF_DIRECTIONS`."""
    found = evidence.statistics
    left_out = redundancy.empty.numpy() | redundancy.copy.numpy() | (found.density > DENSE)
    squares = np.asarray(found.mean_square, dtype=np.float64)
    alive = squares[~redundancy.empty.numpy() & (squares > 0)]
    size = np.sqrt(squares / (np.median(alive) if len(alive) else 1.0))
    curvature = np.ones_like(found.curvature) if is_linear else found.curvature
    return np.where(left_out, 0, curvature * (1 - found.density) * size).astype(np.float32)
