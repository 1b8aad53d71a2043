"""Agreement expected by chance: the average over all rotations of one autoencoder relative to the other.

A rotation O turns W' into OW'Oᵀ and leaves K' unchanged. Symmetric d×d matrices split into multiples of the identity,
which no rotation changes, and traceless ones, which a random rotation spreads evenly over their D = (d−1)(d+2)/2
dimensions. Hence, exactly,

    E⟨A, OBOᵀ⟩² = (tr A tr B / d)² + ‖A₀‖²‖B₀‖² / D,    A₀ = A − (tr A / d) I.
"""

from jaxtyping import Float
from torch import Tensor


def expected_cross_energy(
    energies: Float[Tensor, " k"],
    traces: Float[Tensor, " k"],
    other_energies: Float[Tensor, " g"],
    other_traces: Float[Tensor, " g"],
    d_model: int,
) -> float:
    """E‖M‖² = E Σ_ij ⟨W_i, OW'_jOᵀ⟩² over rotations O, from the latents' ‖W‖² and tr W alone."""
    aligned, other_aligned = traces.square().sum() / d_model, other_traces.square().sum() / d_model
    free = max(0.0, float(energies.sum() - aligned))
    other_free = max(0.0, float(other_energies.sum() - other_aligned))
    directions = (d_model - 1) * (d_model + 2) / 2
    return float(aligned * other_aligned) + (free * other_free / directions if directions else 0.0)
