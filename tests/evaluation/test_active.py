"""The curve over active latents: its ends are known, and dropping latents by hand gives every point of it."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.evaluation.active import ActiveError, error_at, error_by_active, fewest_active
from quadric.model.objective import unit_tokens


def unit(n: int = 40, d: int = 6) -> torch.Tensor:
    return unit_tokens(torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


@pytest.mark.parametrize("numbers_at_once", [1, 450, 10**6])  # one, two and all points of the curve together
@torch.no_grad()
def test_every_point_is_the_error_of_the_kept_forms(numbers_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.evaluation.active.NUMBERS_AT_ONCE", numbers_at_once)
    x, ae = unit(), BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic").double()
    latents = ae.encode_prepared(x)
    forms = torch.stack([ae.form(i) for i in range(5)])
    found = error_by_active(ae, x, latents)
    assert [each.n_active for each in found] == [1, 2, 4, 5]
    for count, error in found:
        kept = torch.zeros_like(latents)
        for row, values in enumerate(latents):
            chosen = values.abs().topk(count).indices
            kept[row, chosen] = values[chosen]
        difference = torch.einsum("nk,kde->nde", kept, forms) - torch.einsum("nd,ne->nde", x, x)
        assert error == pytest.approx(difference.square().sum((1, 2)).mean().item())
    assert found[-1].error == pytest.approx(ae.error(x).mean().item())


@torch.no_grad()
def test_a_linear_dictionary_is_flat_beyond_its_active_latents() -> None:
    x, ae = unit(), TopKAutoencoder(d_model=6, n_latents=16, n_active=4).double().eval()
    found = {each.n_active: each.error for each in error_by_active(ae, x, ae.encode_prepared(x))}
    assert list(found) == [1, 2, 4, 8, 16]
    assert found[4] == found[8] == found[16] == pytest.approx(ae.error(x).mean().item())


def test_fewest_active_latents_reach_nearly_the_error_of_all() -> None:
    curve = [ActiveError(1, 0.9), ActiveError(2, 0.34), ActiveError(4, 0.32), ActiveError(5, 0.3)]
    assert fewest_active(curve) == 4
    assert fewest_active(curve, tolerance=0.2) == 2
    assert fewest_active(curve[:1]) == 1
    assert [error_at(curve, count) for count in (1, 2, 3, 5, 32)] == [0.9, 0.34, 0.32, 0.3, 0.3]
