"""Held-out measures against their definitions."""

import pytest
import torch

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.evaluation.measures import (
    ErrorAccumulator,
    TokenSample,
    bootstrap_interval,
    content_hashes,
    error_by_active,
    error_by_position,
)
from quadric.model.objective import unit_tokens


def tokens(n, seed=0, d=8):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [1, 7, 60])
def test_measures_do_not_depend_on_the_batch_size(size):
    ae = quadric.BilinearAutoencoder(d_model=8, n_latents=12, prior="atomic", seed=3)
    x, sequences, positions = tokens(60), torch.arange(60) // 6, torch.arange(60) % 6
    measuring = ErrorAccumulator(ae)
    for start in range(0, 60, size):
        part = slice(start, start + size)
        measuring.add(x[part], sequences[part], positions[part])
    found = measuring.measures()
    assert found.n_tokens == 60
    assert found.error.mean == pytest.approx(ae.error(x).mean().item(), rel=1e-5)
    assert found.density == pytest.approx(ae.density(x).mean().item(), rel=1e-5)
    assert [each.n_tokens for each in found.by_position] == [10, 10, 20, 20]
    assert found.by_position[2].error == pytest.approx(ae.error(x[(positions == 2) | (positions == 3)]).mean().item())


def test_dead_and_dense_latents_are_counted():
    ae = quadric.TopKAutoencoder(d_model=8, n_latents=10, n_active=10)
    with torch.no_grad():
        ae.encoder_bias[:3] = -100.0  # never fire
        ae.encoder_bias[3:5] = 100.0  # fire equally on every token
        ae.encoder_bias[5:] = -0.5  # fire rarely
    measuring = ErrorAccumulator(ae)
    measuring.add(tokens(200), torch.zeros(200, dtype=torch.int64), torch.zeros(200, dtype=torch.int64))
    found = measuring.measures()
    assert found.dead_share == pytest.approx(0.3)
    assert found.dense_share == pytest.approx(0.2)


def test_a_latent_with_tiny_activations_is_dead():
    ae = quadric.BilinearAutoencoder(d_model=8, n_latents=10, prior="atomic")
    with torch.no_grad():
        ae.left[4] *= 1e-4
    measuring = ErrorAccumulator(ae)
    measuring.add(tokens(200), torch.zeros(200, dtype=torch.int64), torch.zeros(200, dtype=torch.int64))
    assert measuring.measures().dead_share == pytest.approx(0.1)


def test_the_interval_has_roughly_its_nominal_coverage():
    # Errors vary between sequences but hardly within them, so an interval over tokens would be far too narrow.
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(200):
        level = torch.randn(40, generator=generator).repeat_interleave(25)
        errors = level + 0.1 * torch.randn(1000, generator=generator)
        found = bootstrap_interval(errors, torch.arange(1000) // 25)
        hits += found.low <= 0 <= found.high
    assert 0.88 <= hits / 200 <= 0.99


def test_positions_are_grouped_by_powers_of_two():
    positions = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 20])
    found = error_by_position(positions.double(), positions)
    assert [(each.first, each.last) for each in found] == [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31)]
    assert [each.error for each in found] == [0, 1, 2.5, 5.5, 8, 20]


def test_measuring_no_tokens_is_an_error():
    with pytest.raises(ValueError, match="no held-out tokens"):
        ErrorAccumulator(quadric.TopKAutoencoder(d_model=8, n_latents=9, n_active=2)).measures()


# The curve over active latents: its ends are known, and dropping latents by hand gives every point of it.


def unit(n: int = 40, d: int = 6) -> torch.Tensor:
    return unit_tokens(torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


@pytest.mark.parametrize("numbers_at_once", [1, 450, 10**6])  # one, two and all points of the curve together
@torch.no_grad()
def test_every_point_is_the_error_of_the_kept_forms(numbers_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.evaluation.measures.NUMBERS_AT_ONCE", numbers_at_once)
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


def test_rows_with_equal_values_have_equal_hashes_and_others_do_not() -> None:
    x = torch.randn(2_000, 7, generator=torch.Generator().manual_seed(0))
    hashes = content_hashes(torch.cat([x, x.double(), -0.0 * x[:1], 0 * x[:1]]))
    assert torch.equal(hashes[:2_000], hashes[2_000:4_000])
    assert hashes[-1] == hashes[-2]
    assert len(hashes.unique()) == 2_001
    assert abs((hashes > 0).double().mean() - 0.5) < 0.05


def test_the_sample_is_the_same_in_any_order_and_in_any_batches() -> None:
    x = torch.randn(500, 7, generator=torch.Generator().manual_seed(0))
    found = []
    for rows, size in ((x, 500), (x.flip(0), 90), (x[torch.randperm(500)], 1)):
        sample = TokenSample(64)
        for batch in rows.split(size):
            sample.add(batch, 2 * batch)
        found.append(sample.kept)
    assert all(torch.equal(each, found[0]) for each in found)
    assert all(any(torch.equal(row, 2 * token) for token in x) for row in found[0])
    assert abs(found[0].mean()) < 0.3
