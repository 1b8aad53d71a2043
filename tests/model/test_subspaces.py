"""Subspaces: energies are quadratic forms, the decoding is linear in the place inside each block."""

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric.model import SubspaceAutoencoder, Subspaces, unit_tokens
from quadric.model.lens import PaperLens, affine_lens, token_moments
from quadric.model.storage import load_pretrained
from quadric.model.terms import SquaredError
from tests import zoo

D, K, R, M = 12, 20, 3, 4


def made(x: torch.Tensor, **changes: int) -> SubspaceAutoencoder:
    settings = Subspaces(**{"n_latents": K, "rank": R, "n_active": M, **changes})
    lens = affine_lens(token_moments(x))
    return settings.build(D, lens=lens, seed=1).double()


def naive(ae: SubspaceAutoencoder, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Latents and x̂ of unit tokens, block by block."""
    latents, rebuilt = [], []
    for token in unit_tokens(x):
        v = token - ae.lens.centre.double()
        blocks = list(rows.view(K, R, D))
        energies = torch.stack([(block @ v).square().sum() for block in blocks])
        firing = energies.argsort(descending=True)[:M].tolist()
        latents.append(torch.stack([energies[i] if i in firing else energies[i] * 0 for i in range(K)]))
        rebuilt.append(ae.lens.centre.double() + sum(blocks[i].mT @ (blocks[i] @ v) for i in firing))
    return torch.stack(latents), torch.stack(rebuilt)


def test_latents_and_reconstruction_are_those_of_the_formulas():
    x = zoo.tokens(30)[:, :D] + 0.5
    ae = made(x)
    latents, rebuilt = naive(ae, x, ae.rows.detach())
    assert_close(ae.encode(x), latents)
    assert_close(ae.encode(3 * x), latents, msg="latents are those of unit tokens")
    assert (ae.encode(x) > 0).sum(1).tolist() == [M] * 30
    assert_close(ae.rebuild(x), rebuilt * x.norm(dim=1, keepdim=True))
    assert_close(ae.vectors_of(ae.prepare(x), ae.encode(x)), rebuilt)
    assert_close(ae.step(x).z, latents)
    assert_close(ae.step(x).reconstruction, rebuilt)


def test_gradients_are_those_of_the_formulas():
    x = zoo.tokens(30)[:, :D] + 0.5
    ae = made(x)
    step = ae.step(x)
    SquaredError()(step).backward()
    rows = ae.rows.detach().clone().requires_grad_()
    (unit_tokens(x) - naive(ae, x, rows)[1]).square().sum(1).mean().backward()
    assert_close(ae.rows.grad, rows.grad)


def test_latents_are_quadratic_forms_of_rank_r():
    x = zoo.tokens(30)[:, :D] + 0.5
    ae = made(x)
    forms = ae.forms()
    shown = ae.lens(unit_tokens(x)).double()
    energies = torch.stack([((shown @ forms.form(i)) * shown).sum(1) for i in range(K)], dim=1)
    firing = ae.encode(x) > 0
    assert_close(ae.encode(x)[firing], energies[firing])
    table = quadric.latents(ae)
    assert_close(torch.as_tensor(table["effective_rank"]).double(), torch.full((K,), float(R)).double())
    assert set(table["shape"]) == {"ellipsoid"}


def test_a_changed_latent_changes_the_size_of_its_block_alone():
    x = zoo.tokens(30)[:, :D] + 0.5
    ae = made(x)
    tokens, latents = ae.prepare(x), ae.encode(x)
    block = int(latents[0].argmax())
    share = ae.rows.view(K, R, D)[block]
    own = (ae.centred(tokens)[:1] @ share.mT) @ share
    plain = ae.vectors_of(tokens, latents)[:1]
    for factor in (0.0, 4.0):
        changed = latents.clone()
        changed[0, block] *= factor
        assert_close(ae.vectors_of(tokens, changed)[:1] - plain, (factor**0.5 - 1) * own)


def test_it_is_trained_saved_loaded_and_resumed_to_the_same_bits(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(600, D) + 1
    kind = Subspaces(n_latents=K, rank=R, n_active=M)
    options = {"batch_tokens": 100, "progress": False}
    whole = quadric.fit(x, kind, steps=12, **options)
    stop = [lambda learner: learner.step_index == 5]
    quadric.fit(x, kind, steps=12, out=tmp_path / "run", callbacks=stop, **options)
    resumed = quadric.fit(x, kind, steps=12, out=tmp_path / "run", resume=True, **options)
    assert torch.equal(whole.rows, resumed.rows)
    assert whole.step(x).n_tokens == 600
    resumed.save_pretrained(tmp_path / "saved")
    loaded = load_pretrained(tmp_path / "saved")
    assert loaded.settings == kind
    assert torch.equal(loaded.encode(x), whole.encode(x))


def test_it_can_be_moved_along_and_within_a_block():
    x = zoo.tokens(30)[:, :D] + 0.5
    ae = made(x)
    latent = ae.latent(0)
    moved = latent.project(x, to=0.5)
    norms = x.norm(dim=1)
    assert_close(latent.value(moved, norms=norms), torch.full((30,), 0.5).double())
    turned = latent.slide(x, by=1.0)
    assert_close(latent.value(turned, norms=norms), latent.value(x))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_active": 30}, "n_active=30 exceeds n_latents=20; lower n_active"),
        ({"rank": 0}, "rank=0 is not positive"),
        ({"rank": 13}, "rank=13 exceeds d_model=12"),
        ({"rank": 2, "lens": PaperLens(D)}, "subspaces are of centred tokens, and lens='paper' has no centre"),
    ],
)
def test_impossible_settings_are_refused(settings, said):
    rest = {name: value for name, value in settings.items() if name != "lens"}
    with pytest.raises(ValueError, match=said):
        Subspaces(**{"n_latents": K, **rest}).build(D, lens=settings.get("lens"))


def planted_circles(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens with about a fifth of 12 circles each, whose centres are off the origin, and their planes."""
    generator = torch.Generator().manual_seed(seed)
    planes = torch.linalg.qr(torch.randn(12, 40, 2, generator=generator)).Q
    angles = 2 * torch.pi * torch.rand(20_000, 12, generator=generator)
    present = torch.rand(20_000, 12, generator=generator) < 0.2
    points = torch.stack([angles.cos() + 0.7, angles.sin()], dim=-1) * present[..., None]
    return torch.einsum("ncp,cdp->nd", points, planes) + 0.05 * torch.randn(20_000, 40, generator=generator), planes


@pytest.mark.slow
def test_planted_circles_are_found_each_in_one_latent():
    """A direction holds at most half of a plane (benchmarks/bench_subspaces.py has controls and more seeds)."""
    means = []
    for seed in range(3):
        x, planes = planted_circles(seed)
        kind = Subspaces(n_latents=16, rank=3, n_active=3)
        ae = quadric.fit(x, kind, steps=400, batch_tokens=512, seed=seed, progress=False)
        bases = torch.linalg.qr(ae.rows.detach().view(16, 3, 40).mT).Q
        overlaps = torch.einsum("cdp,kdq->ckpq", planes, bases).square().sum((-1, -2)) / 2
        means.append(overlaps.amax(1).mean().item())
    assert sum(means) / 3 > 0.8, means
