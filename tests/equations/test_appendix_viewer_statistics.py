"""The viewer's statistics, as the appendix prints them, on materialized spectra; and its ranking of neighbours."""

import pytest
import torch

from quadric.geometry import neighbours, spectrum, statistics
from tests.geometry.examples import trained


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_effective_rank_importance_and_captured(prior):
    ae = trained(prior)
    table = statistics(ae)
    sizes = torch.stack([torch.linalg.eigvalsh(ae.form(i).double()).abs().sort().values.flip(0) for i in range(20)])
    importance = sizes.square().sum(1)
    torch.testing.assert_close(table.importance, importance / importance.mean(), atol=1e-6, rtol=0)
    torch.testing.assert_close(table.effective_rank, sizes.sum(1) ** 2 / importance, atol=1e-6, rtol=0)
    torch.testing.assert_close(table.captured, sizes[:, :3].sum(1) / sizes.sum(1), atol=1e-6, rtol=0)


def test_importance_is_the_diagonal_of_the_kernel():
    """Σ_j λ_j² = ‖W_i‖² = K_ii: the total spectral energy needs no spectrum."""
    ae = trained()
    diagonal = ae.kernel().diagonal().double()
    torch.testing.assert_close(statistics(ae).importance, diagonal / diagonal.mean(), atol=1e-5, rtol=0)


def test_neighbours_are_ranked_by_the_printed_overlap():
    ae = trained()
    found = neighbours(ae, count=4)
    bases = [spectrum(ae, i).eigenvectors[:, : int(r)] for i, r in enumerate(found.ranks)]
    for i in range(20):
        for j, overlap in zip(found.latents[i].tolist(), found.overlaps[i].tolist(), strict=True):
            product = bases[i].mT @ bases[j]
            expected = product.square().sum() / (bases[i].shape[1] * bases[j].shape[1]) ** 0.5
            assert overlap == pytest.approx(float(expected), abs=1e-5)
