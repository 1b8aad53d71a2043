"""Several latents at once: exact where their spaces are independent, without double counting where they overlap."""

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.interventions import Combination
from tests import zoo

X = zoo.tokens()
NORMS = X.norm(dim=1)
AE = zoo.make("atomic affine")


def test_every_latent_gets_its_value_although_their_spaces_are_not_orthogonal():
    wanted = {0: 0.4, 3: -0.2, 7: 0.1}
    interventions = [AE.latent(index).project(to=value) for index, value in wanted.items()]
    overlap = AE.latent(0).axes.basis.mT @ AE.latent(3).axes.basis
    assert float(overlap.abs().max()) > 0.1
    result = Combination(interventions)(X)
    for index, value in wanted.items():
        assert float((AE.latent(index).value(result, norms=NORMS) - value).abs().max()) < 1e-8


def test_the_order_does_not_matter():
    interventions = [AE.latent(0).project(to=0.4), AE.latent(3).slide(by=0.5), AE.latent(7).ablate()]
    torch.testing.assert_close(Combination(interventions)(X), Combination(interventions[::-1])(X))


def test_one_after_the_other_depends_on_the_order():
    first, second = AE.latent(0).project(to=0.4), AE.latent(3).project(to=-0.2)
    assert not torch.allclose(first(second(X)), second(first(X)))


def copies() -> BilinearAutoencoder:
    """Latents 0 and 1 are the same form."""
    ae = BilinearAutoencoder(d_model=12, n_latents=4, prior="atomic", dtype=torch.float64)
    with torch.no_grad():
        ae.left[1], ae.right[1] = ae.left[0], ae.right[0]
    return ae


@pytest.mark.parametrize("make", [lambda latent: latent.ablate(), lambda latent: latent.project(to=0.3)])
def test_copies_move_once(make):
    ae = copies()
    both = Combination([make(ae.latent(0)), make(ae.latent(1))])(X)
    torch.testing.assert_close(both, make(ae.latent(0))(X))


def test_ablating_several_latents_removes_the_span_of_all_their_axes():
    ae = zoo.make("atomic")
    latents = [ae.latent(index) for index in range(4)]
    result = Combination([latent.ablate() for latent in latents])(X)
    span = torch.linalg.qr(torch.cat([latent.axes.basis for latent in latents], dim=1)).Q
    torch.testing.assert_close(result, X - X @ span @ span.mT)


def test_nearly_the_same_direction_takes_no_huge_change():
    ae = copies()
    with torch.no_grad():
        ae.left[1] += 1e-3 * ae.left[2]
    change = Combination([ae.latent(0).project(to=0.3), ae.latent(1).project(to=0.2)]).change(X / NORMS[:, None])
    alone = Combination([ae.latent(0).project(to=0.3)]).change(X / NORMS[:, None])
    assert float(change.norm(dim=1).max()) < 3 * float(alone.norm(dim=1).max())


def test_widths_must_agree():
    other = BilinearAutoencoder(d_model=8, n_latents=4, prior="atomic")
    with pytest.raises(ValueError, match=r"widths \[8, 12\]; give latents of one hook point"):
        Combination([AE.latent(0).ablate(), other.latent(0).ablate()])
