"""Errors by block against materialized matrices."""

import pytest
import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.evaluation.blocks import BlockAccumulator
from quadric.model.lens import AffineLens
from quadric.model.objective import unit_tokens

D = 7
LENS = AffineLens(torch.full((D,), 0.25), torch.tensor(0.3), torch.eye(D), torch.tensor(100))
DICTIONARIES = {
    "atomic": BilinearAutoencoder(d_model=D, n_latents=9, prior="atomic"),
    "sparse composite": BilinearAutoencoder(d_model=D, n_latents=40, prior="composite", mixing_density=0.005),
    "printed": BilinearAutoencoder(d_model=D, n_latents=9, prior="quadratic", symmetric=False),
    "tied": BilinearAutoencoder(d_model=D, n_latents=9, prior="atomic", same_factors=True),
    "affine": BilinearAutoencoder(d_model=D, n_latents=9, prior="atomic", lens=LENS),
    "sparse affine": BilinearAutoencoder(d_model=D, n_latents=40, mixing_density=0.005, lens=LENS),
    "topk": TopKAutoencoder(d_model=D, n_latents=9, n_active=3),
}


def tokens(n: int = 60) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, D, generator=generator, dtype=torch.float64) + torch.linspace(0, 2, D, dtype=torch.float64)


@pytest.mark.parametrize("name", DICTIONARIES)
@torch.no_grad()
def test_they_are_the_blocks_of_the_materialized_error(name: str) -> None:
    ae = DICTIONARIES[name].double().eval()
    unit = unit_tokens(tokens())
    latents = ae.encode_prepared(unit)
    accumulator = BlockAccumulator(ae, unit.mean(0))
    for part in (slice(0, 25), slice(25, None)):
        accumulator.add(unit[part], latents[part], ae.errors_of(unit[part], latents[part]).product_space)
    target = torch.einsum("nd,ne->nde", unit, unit)
    if isinstance(ae, BilinearAutoencoder):
        rebuilt = ae.reconstruct(unit)
    else:
        rebuilt = torch.einsum("nd,ne->nde", ae.decode(latents), ae.decode(latents))
    m = torch.nn.functional.normalize(unit.mean(0), dim=0)
    along = m.outer(m)
    across = torch.eye(D, dtype=torch.float64) - along
    found = accumulator.result()
    for block, parts in {
        "constant": [(along, along)],
        "linear": [(along, across), (across, along)],
        "quadratic": [(across, across)],
    }.items():
        error = sum((a @ (rebuilt - target) @ b).square().sum() for a, b in parts)
        energy = sum((a @ target @ b).square().sum() for a, b in parts)
        assert_close(getattr(found.error, block), float(error / energy), rtol=1e-6, atol=1e-9)
        assert_close(getattr(found.energy, block), float(energy / target.square().sum()))
    assert_close(found.along, float((unit @ m).mean()))
    assert_close(found.along_deviation, float((unit @ m).std(correction=0)))


def test_a_dictionary_that_knows_the_mean_alone_loses_every_other_block() -> None:
    unit = unit_tokens(tokens())
    m = torch.nn.functional.normalize(unit.mean(0), dim=0)
    ae = BilinearAutoencoder(d_model=D, n_latents=1, prior="atomic", same_factors=True).double()
    with torch.no_grad():
        ae.left[0] = m
        latents = ae.encode_prepared(unit)
        accumulator = BlockAccumulator(ae, unit.mean(0))
        accumulator.add(unit, latents, ae.errors_of(unit, latents).product_space)
    assert accumulator.result().error == pytest.approx((0, 1, 1), abs=1e-9)
