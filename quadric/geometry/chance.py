"""What agreement to expect by chance: the average over all rotations of one autoencoder against the other.

A rotation O turns W' into OW'Oᵀ and leaves K' as it is. Symmetric d×d matrices split into multiples of the identity,
which no rotation moves, and traceless ones, which a random rotation sends in every one of their D = (d−1)(d+2)/2
directions alike. Hence, exactly,

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
