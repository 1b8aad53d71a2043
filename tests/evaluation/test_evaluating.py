"""`quadric.evaluate` as a user calls it."""

import math

import pytest
import torch

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.data.batches import ActivationBatch
from quadric.data.provenance import StreamProvenance
from quadric.data.sources import ActivationsInMemory
from quadric.model import Forms, Provenance, forms_of
from quadric.model.storage import weights_sha256


def rows(n: int = 300, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_it_is_the_mean_error_over_all_rows_whatever_they_come_as() -> None:
    ae = BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic")
    expected = ae.error(rows()).mean().item()
    for x in (rows(), rows().numpy(), [rows()[:100], rows()[100:]]):
        report = quadric.evaluate(ae, x)
        assert report.error == pytest.approx(expected, rel=1e-5)
        assert report.measures.n_tokens == 300
    assert quadric.evaluate(ae, rows(), tokens=50).error == pytest.approx(ae.error(rows()[:50]).mean().item(), rel=1e-5)


def test_a_perfect_dictionary_has_no_error_and_a_silent_one_all_of_it() -> None:
    d = 3
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    ae = BilinearAutoencoder(d_model=d, n_latents=len(pairs), prior="atomic")
    with torch.no_grad():
        for number, (i, j) in enumerate(pairs):
            ae.left[number], ae.right[number] = torch.eye(d)[i], torch.eye(d)[j] * (1 if i == j else math.sqrt(2))
    assert quadric.evaluate(ae, rows(d=d)).error == pytest.approx(0, abs=1e-5)
    with torch.no_grad():
        ae.left.zero_()
    silent = quadric.evaluate(ae, rows(d=d))
    assert silent.error == pytest.approx(1, abs=1e-6)
    assert silent.dead_share == 1
    assert silent.dense_share == 0


def test_it_prints_as_a_short_table_and_converts() -> None:
    report = quadric.evaluate(TopKAutoencoder(d_model=6, n_latents=8, n_active=2), rows())
    assert str(report).splitlines()[0] == "topk with 8 latents"
    assert 6 < len(str(report).splitlines()) < 14
    assert "error, quadratic" in str(report)
    assert len(repr(report)) < 200
    assert report.to_dict()["error"] == report.error
    frame = report.to_pandas()
    assert frame.loc[0, "density"] == report.density


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \(n, 6\)"):
        quadric.evaluate(BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic"), rows(d=7))


@pytest.mark.parametrize("input", ["own", "constant_norm"])
def test_what_an_encoder_reads_does_not_change_a_dictionary_without_biases(input) -> None:
    """ReLU without biases commutes with the length of a token, so that every measure is that of unit tokens."""
    x = torch.linspace(0.5, 80, 300)[:, None] * (rows() + 1)
    weights = {"encoder": rows(9, seed=1), "decoder": rows(9, seed=2)}
    found = quadric.evaluate(quadric.linear_dictionary(**weights, input=input), x, progress=False)
    unit = quadric.evaluate(quadric.linear_dictionary(**weights, input="unit"), x, progress=False)
    for name in ("error", "error_constant", "error_linear", "error_quadratic", "floor"):
        assert getattr(found, name) == pytest.approx(getattr(unit, name), rel=1e-4)
    for one, other in zip(found.measures.by_active[-1:], unit.measures.by_active[-1:], strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-4)


@pytest.mark.parametrize("input", ["unit", "own", "constant_norm", "layer_norm"])
def test_blocks_are_those_of_the_materialized_reconstruction(input) -> None:
    x = torch.linspace(0.5, 80, 300)[:, None] * (rows() + 1)
    ae = quadric.linear_dictionary(
        encoder=rows(9, seed=1), decoder=rows(9, seed=2), decoder_bias=rows(1, seed=3)[0], n_active=3, input=input
    )
    report = quadric.evaluate(ae, x, progress=False)
    lengths = x.norm(dim=-1, keepdim=True)
    unit, rebuilt = ((each / lengths).double() for each in (x, ae.rebuild(x)))
    target, found = (each[:, :, None] * each[:, None] for each in (unit, rebuilt))
    along = torch.nn.functional.normalize(unit.mean(0), dim=0)
    onto = along.outer(along)
    across = torch.eye(6).double() - onto
    for name, left, right in (("error_constant", onto, onto), ("error_quadratic", across, across)):
        difference, whole = left @ (target - found) @ right, left @ target @ right
        assert getattr(report, name) == pytest.approx(
            (difference.square().sum() / whole.square().sum()).item(), rel=1e-4
        )
    assert report.error == pytest.approx((target - found).square().sum((1, 2)).mean().item(), rel=1e-4)


class Projecting(quadric.Dictionary):
    """A kind from outside: one latent is the energy in its plane, and all planes together rebuild a vector."""

    def __init__(self, settings: quadric.Settings, d_model: int) -> None:
        super().__init__(settings, d_model)
        self.rows = torch.nn.Parameter(rows(2 * settings.n_latents, d_model, seed=1) / d_model**0.5)

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        return (tokens @ self.rows.mT).unflatten(1, (-1, 2)).square().sum(-1)

    def rebuild(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens @ self.rows.mT @ self.rows


class ProjectingWithForms(Projecting):
    def forms(self) -> Forms:
        return forms_of(self.rows, mixing=torch.eye(self.n_latents).repeat_interleave(2, dim=1))


@pytest.mark.parametrize("kind", [Projecting, ProjectingWithForms])
def test_a_kind_from_outside_is_evaluated_by_the_vectors_that_it_rebuilds(kind: type[Projecting]) -> None:
    ae, x = kind(quadric.TopK(n_latents=4, n_active=4), 6), rows()
    report = quadric.evaluate(ae, x, progress=False)
    assert report.error == pytest.approx(ae.error(x).mean().item(), rel=1e-5)
    without_forms = quadric.evaluate(Projecting(quadric.TopK(n_latents=4, n_active=4), 6), x, progress=False)
    assert report.measures.blocks == without_forms.measures.blocks, "X̂ is x̂x̂ᵀ, and not Σ z_i W_i"
    assert [each.n_active for each in report.measures.by_active] == [4], "latents alone do not rebuild a token"
    assert report.measures.by_active[0].error == pytest.approx(report.error, rel=1e-4)
    has_forms = kind is ProjectingWithForms
    assert (report.n_empty, report.n_copies, report.n_distinct) == ((0, 0, 4) if has_forms else (None, None, None))
    assert ("distinct latents" in str(report)) is has_forms


@pytest.mark.parametrize("tokens", [-5, 0])
def test_a_number_of_tokens_that_is_not_positive_is_refused(tokens: int) -> None:
    with pytest.raises(ValueError, match=f"tokens={tokens} is not positive; give how many rows"):
        quadric.evaluate(BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic"), rows(), tokens=tokens)


def at(hook_point: str) -> ActivationsInMemory:
    numbers = torch.arange(300)
    batch = ActivationBatch({hook_point: rows()}, numbers, numbers, numbers, numbers)
    return ActivationsInMemory(batch, StreamProvenance(hook_points=(hook_point,), corpus="text", split="train"))


def test_activations_of_another_layer_are_refused_unless_they_are_asked_for() -> None:
    ae = BilinearAutoencoder(
        d_model=6, n_latents=5, prior="atomic", provenance=Provenance(model="m", hook_point="resid_pre.2")
    )
    with pytest.raises(ValueError, match=r"those of resid_pre\.1, but the dictionary reads resid_pre\.2; give"):
        quadric.evaluate(ae, at("resid_pre.1"))
    assert quadric.evaluate(ae, at("resid_pre.1"), hook_point="resid_pre.1").hook_point == "resid_pre.1"
    assert quadric.evaluate(ae, at("resid_pre.2")).hook_point == "resid_pre.2"
    assert quadric.evaluate(ae, rows()).hook_point == "rows"  # a bare tensor does not say


def test_a_result_says_what_it_is_of() -> None:
    ae = BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic")
    row = quadric.evaluate(ae, at("resid_pre.1")).to_dict()
    assert row["weights_sha256"] == weights_sha256(ae)
    assert (row["corpus"], row["split"], row["hook_point"], row["tokens"]) == ("text", "train", "resid_pre.1", 300)


def test_what_the_caller_sets_for_torch_changes_no_number() -> None:
    ae, x = BilinearAutoencoder(d_model=6, n_latents=5, prior="atomic"), rows()
    expected = quadric.evaluate(ae, x).to_dict()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quadric.evaluate(ae, x).to_dict() == expected
    torch.set_default_dtype(torch.float64)
    try:
        assert quadric.evaluate(ae, x).to_dict() == expected
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_order_of_the_rows_changes_no_number_beyond_rounding() -> None:
    """With tokens that drift: the first of them, or every second, say little about the others."""
    x = rows(12_000) + torch.linspace(0, 3, 12_000)[:, None]
    ae = quadric.fit(x, n_latents=5, steps=5, progress=False)
    found = [quadric.evaluate(ae, each, progress=False) for each in (x, x.flip(0))]
    for name in ("error", "floor", "error_constant", "error_linear", "error_quadratic"):
        assert getattr(found[0], name) == pytest.approx(getattr(found[1], name), rel=1e-6), name
    for one, other in zip(*(each.measures.by_active for each in found), strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-6)
