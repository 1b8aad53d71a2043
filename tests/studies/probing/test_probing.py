"""The whole of probing: a planted quadratic label is found by quadratic latents alone, and mistakes are named."""

from pathlib import Path

import numpy as np
import pytest
import torch

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.model import Provenance
from quadric.model.lens import affine_lens, token_moments
from quadric.model.objective import unit_tokens
from quadric.studies.probing import LabelledSet, summary_of
from quadric.studies.probing.families import families_of
from quadric.studies.probing.labelled import Split
from quadric.studies.probing.probing import _tables
from quadric.studies.probing.vectors import vectors_of_rows
from tests.data.tiny import D_MODEL, tiny_model

pytestmark = pytest.mark.slow
D = 48


def rows(n: int = 240) -> torch.Tensor:
    """Tokens with a large mean, whose first two coordinates about it lie on one of two circles.

    All have nearly the same length: otherwise scaling to unit norm would write the radius into the largest coordinate,
    where linear features find it.
    """
    generator = torch.Generator().manual_seed(0)
    v = 0.1 * torch.randn(n, D, generator=generator)
    angle = 2 * torch.pi * torch.rand(n, generator=generator)
    radius = torch.where(torch.arange(n) % 2 == 0, 1.5, 0.5)
    v[:, 0], v[:, 1] = radius * angle.cos(), radius * angle.sin()
    v[:, 2] += 6
    v[:, 3] = (4 - radius.square()).sqrt() * torch.where(torch.rand(n, generator=generator) < 0.5, -1, 1)
    return v


def knows_the_radius(x: torch.Tensor) -> BilinearAutoencoder:
    """A dictionary whose latent 3 is the squared distance from the centre in the plane of the circle."""
    ae = BilinearAutoencoder(
        d_model=D, n_latents=8, n_hidden=16, prior="quadratic", lens=affine_lens(token_moments(unit_tokens(x)))
    )
    with torch.no_grad():
        weights = ae.mixing.weight
        weights[3] = 0
        weights[3, :2] = 1
        ae.left[:2] = ae.right[:2] = torch.eye(2, D + 1)
    return ae


def test_a_quadratic_label_is_read_by_the_quadratic_latent_and_not_by_linear_features() -> None:
    x = rows()
    data = LabelledSet(name="radius", kind="binary", vectors=x, labels=[1, 0] * 120)
    topk = TopKAutoencoder(d_model=D, n_latents=12, n_active=4)
    found = quadric.probe({"ours": knows_the_radius(x), "topk": topk}, [data], seeds=2, counts=(1, None))
    auc = {(each.label, each.count): each.value.mean for each in summary_of(found).auc}
    assert auc["ours: latents", 1] > 0.97
    assert auc["ours: quadratic part", 1] > 0.97
    assert auc["ours: linear part", 1] < 0.7
    assert auc["raw", None] < 0.7
    assert auc["degree 2", None] > 0.9  # the information is there for whoever looks for products


def test_the_eigenspace_of_that_latent_holds_the_angle() -> None:
    x = rows()
    angle = torch.atan2(x[:, 1], x[:, 0])
    data = LabelledSet(name="angle", kind="cyclic", period=2 * torch.pi, vectors=x, labels=angle.tolist())
    found = quadric.probe(knows_the_radius(x), [data], seeds=2)
    r2 = {each.label: each.value.mean for each in summary_of(found).r2}
    assert r2["dictionary: eigenspace"] > 0.7
    assert r2["dictionary: eigenspace"] > r2["dictionary: random subspace"] + 0.05
    assert r2["dictionary: shuffled labels"] < 0.1
    eigenspace = [row for row in found.regressions if row.family == "eigenspace"]
    assert {row.chosen for row in eigenspace} == {"3 | 3 | 3"}
    assert all(row.circular is not None and row.circular > 0.8 for row in eigenspace)


def test_a_dictionary_with_the_papers_lens_is_read_about_the_mean_of_the_rows() -> None:
    """Its form about the origin is half linear: the mean is large, and (μ̂·x)(w·x) is a slope along w."""
    x = rows()
    ae = BilinearAutoencoder(d_model=D, n_latents=4, prior="atomic")
    with torch.no_grad():
        ae.left[0], ae.right[0] = torch.eye(D)[2], torch.eye(D)[0]  # coordinate 2 is the mean's
    data = LabelledSet(name="side", kind="binary", vectors=x, labels=(x[:, 0] > 0).int().tolist())
    found = quadric.probe({"raw lens": ae}, [data], seeds=2, counts=(1,))
    auc = {each.label: each.value.mean for each in summary_of(found).auc}
    assert auc["raw lens: latents"] > 0.97
    assert auc["raw lens: linear part"] > 0.97
    assert auc["raw lens: quadratic part"] < 0.75
    angle = torch.atan2(x[:, 1], x[:, 0])
    circle = LabelledSet(name="angle", kind="cyclic", period=2 * torch.pi, vectors=x, labels=angle.tolist())
    assert len(quadric.probe({"raw lens": ae}, [circle], seeds=2).regressions) == 2 * 12


def test_texts_are_read_by_the_language_model_once(tmp_path: Path) -> None:
    known = Provenance(hook_point="resid_pre.2", packing="packed", block_length=64)
    ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=6, prior="atomic", provenance=known)
    texts = [f"{'cat' if n % 2 else 'dog'} number {n}" for n in range(40)]
    data = LabelledSet(name="cats", kind="binary", texts=texts, labels=[n % 2 for n in range(40)])
    first = quadric.probe(ae, [data], seeds=2, counts=(1,), model=tiny_model(), cache=tmp_path)
    assert {row.pooling for row in first.rows} == {"last", "mean"}
    assert first.sets[0].is_trivial
    again = quadric.probe(ae, [data], seeds=2, counts=(1,), model=tiny_model(), cache=tmp_path, poolings=["mean"])
    assert [row for row in first.rows if row.pooling == "mean"] == list(again.rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": 1}, "seeds=1 is too small; give a whole number of at least 2"),
        ({"data": []}, "no data to probe on"),
        ({"data": ["no_such_set"]}, "no set 'no_such_set'"),
        ({"autoencoders": {}}, "no autoencoder to probe"),
    ],
)
def test_mistakes_are_named(given: dict[str, object], message: str) -> None:
    x = rows(40)
    data = LabelledSet(name="radius", kind="binary", vectors=x, labels=[1, 0] * 20)
    plain = {"autoencoders": TopKAutoencoder(d_model=D, n_latents=4, n_active=1), "data": [data]}
    with pytest.raises(ValueError, match=message):
        quadric.probe(**plain | given)  # type: ignore[arg-type]


def test_dictionaries_of_different_layers_are_refused() -> None:
    made = {
        name: TopKAutoencoder(d_model=D, n_latents=4, n_active=1, provenance=Provenance(hook_point=name))
        for name in ("resid_pre.1", "resid_pre.2")
    }
    with pytest.raises(ValueError, match="different hook points"):
        quadric.probe(made, ["weekdays"])
    made["resid_pre.2"] = TopKAutoencoder(d_model=8, n_latents=4, n_active=1)
    with pytest.raises(ValueError, match="different widths"):
        quadric.probe(made, ["weekdays"])
    same = LabelledSet(name="weekdays", kind="binary", vectors=rows(40), labels=[1, 0] * 20)
    with pytest.raises(ValueError, match="two sets are named 'weekdays'"):
        quadric.probe(TopKAutoencoder(d_model=D, n_latents=4, n_active=1), ["weekdays", same])


def test_a_dictionary_that_reads_activations_at_their_own_length_gets_them_so() -> None:
    rows = 40 * torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    directions = torch.nn.functional.normalize(torch.randn(12, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    ae = quadric.linear_dictionary(encoder=directions, decoder=directions, threshold=20.0)
    (family, table), *_ = _tables(families_of({"sae": ae}), vectors_of_rows(rows))
    assert family.name == "latents"
    found = table(Split(np.arange(60), np.arange(0)))
    np.testing.assert_allclose(found, ae.encode(rows).detach().numpy(), rtol=1e-2, atol=0.1)
    assert (found > 0).any()
