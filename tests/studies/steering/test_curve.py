"""The whole curve on a small model: every number has its meaning, and bad input has its line."""

import pytest
import torch

import quadric
from quadric.data.hook_points import HookPointError
from quadric.model import Provenance
from quadric.studies.steering.curve import dose_for
from quadric.studies.steering.results import MEASURES
from tests.studies.steering.conftest import SENTENCES, Steerable

pytestmark = pytest.mark.slow

PROMPTS = [f"Prompt {n} says" for n in range(6)]


def curve(steerable: Steerable, latent=None, **settings):
    given = {"corpus": steerable.acts, "texts": SENTENCES, "seeds": [0], "new_tokens": 3, **settings}
    chosen = steerable.ae.latent(3) if latent is None else latent
    return quadric.steering_curve(steerable.model, chosen, steerable.evidence, PROMPTS, **given)


@pytest.fixture(scope="module")
def found(steerable: Steerable):
    return curve(steerable, topk=steerable.topk, match=["hellinger", "following"], seeds=[0, 1])


def test_every_method_value_match_and_seed_has_its_row(found) -> None:
    values = {row.to for row in found.rows if row.to is not None}
    assert len(values) == 3
    assert len(found.rows) == 2 * (1 + 3 * (1 + 2 * 5))
    assert {row.method for row in found.rows} == {
        "none", "quadric", "leading eigenvector", "difference of means", "TopK latent", "random direction",
        "random quadric",
    }  # fmt: skip
    assert len(found.summaries()) == 1 + 3 * (1 + 2 * 5)


def test_without_steering_nothing_changes(found) -> None:
    none = next(row for row in found.rows if row.method == "none")
    changes = ("hellinger", "divergence", "own", "following", "text_divergence", "text_cross_entropy")
    assert all(getattr(none, name) == 0 for name in changes)
    assert none.perplexity > 1


def test_baselines_have_about_the_effect_of_the_quadric(steerable: Steerable) -> None:
    """On the very prompts that choose the dose, the interpolated dose gives the wanted effect."""
    from quadric.studies.steering.curve import _Asked, _Study
    from quadric.studies.steering.methods import added

    latent = steerable.ae.latent(3)
    point = quadric.data.parse_hook_point("resid_pre.2", 4)
    study = _Study(steerable.model, point, latent, steerable.evidence, steerable.acts.vectors, SENTENCES, 2)
    asked = _Asked(steerable.model, point, PROMPTS)
    method = added("any", torch.randn(32, generator=torch.Generator().manual_seed(0)).double())
    tried = [each.hellinger for each in study.tried(method, asked, 1.0, {})]
    assert tried[0] == 0
    for target in (0.3 * max(tried), 0.8 * max(tried)):
        dose = dose_for(method.doses, tried, target)
        assert study.effect(method.at(dose), asked, 1.0).hellinger == pytest.approx(target, rel=0.3)


def test_a_row_without_dose_has_no_numbers(found) -> None:
    for row in found.rows:
        measured = [getattr(row, name) is not None for name in MEASURES]
        assert all(measured) if row.dose is not None or row.method == "none" else not any(measured)


def test_seeds_draw_other_prompts(found) -> None:
    first, second = (row for row in found.rows if row.method == "quadric" and row.to == found.rows[1].to)
    assert first.hellinger != second.hellinger


@pytest.mark.parametrize(
    ("target", "expected"), [(0.05, 0.5), (0.1, 1.0), (0.2, 2.0), (0.31, None), (0.0, None), (-0.1, None)]
)
def test_dose_by_linear_interpolation(target: float, expected: float | None) -> None:
    assert dose_for([0.0, 1.0, 3.0], [0.0, 0.1, 0.3], target) == (None if expected is None else pytest.approx(expected))


def test_the_first_crossing_counts() -> None:
    assert dose_for([0.0, 1.0, 2.0, 3.0], [0.0, 0.4, 0.1, 0.4], 0.2) == pytest.approx(0.5)
    assert dose_for([0.0, 1.0], [0.5, 0.6], 0.2) == 0.0


def test_an_unreachable_value_names_the_reachable_range(steerable: Steerable) -> None:
    squares = quadric.Atomic(n_latents=8, same_factors=True, lens="paper")
    tied = quadric.fit(steerable.acts, squares, steps=2, progress=False)
    evidence = quadric.collect_evidence(tied, steerable.acts, points=20, progress=False)
    with pytest.raises(ValueError, match=r"latent 1 cannot take the value -1: it reaches .* … ∞; give a value"):
        quadric.steering_curve(
            steerable.model, tied.latent(1), evidence, PROMPTS, corpus=steerable.acts, texts=SENTENCES, to=-1.0
        )


def test_errors_name_the_remedy(steerable: Steerable) -> None:
    ae = steerable.ae
    other = quadric.BilinearAutoencoder(d_model=32, n_latents=16, prior="atomic")

    def placed(**provenance):
        return quadric.BilinearAutoencoder(
            d_model=32, n_latents=16, prior="atomic", provenance=Provenance(**provenance)
        ).latent(3)

    wrong_model = placed(hook_point="resid_pre.2", model="other", model_revision="sampled-sha256:0")
    for error, match, settings in (
        (ValueError, "trained on other .*load the model", {"latent": wrong_model}),
        (HookPointError, "cannot be replaced at resid_mid.2; give", {"latent": placed(hook_point="resid_mid.2")}),
        (HookPointError, "does not record its hook point", {"latent": other.latent(3)}),
        (ValueError, "evidence is about other weights", {"latent": placed(hook_point="resid_pre.2")}),
        (ValueError, "no seed was given", {"seeds": []}),
        (ValueError, "new_tokens=0", {"new_tokens": 0}),
        (ValueError, r"to=\[\] has no finite", {"to": []}),
        (ValueError, "no finite values", {"to": [float("nan")]}),
        (ValueError, r"corpus is \(5, 8\); give activations \(n, 32\)", {"corpus": torch.ones(5, 8)}),
        (ValueError, "texts has none of two tokens", {"texts": ["a"]}),
        (ValueError, "topk is a BilinearAutoencoder", {"topk": ae}),
    ):
        with pytest.raises(error, match=match) as caught:
            curve(steerable, **settings)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="1 different prompts are too few"):
        quadric.steering_curve(
            steerable.model, ae.latent(3), steerable.evidence, ["a b"] * 9, corpus=steerable.acts, texts=SENTENCES
        )


def test_an_empty_latent_is_refused() -> None:
    empty = quadric.BilinearAutoencoder(d_model=32, n_latents=16, prior="atomic")
    with torch.no_grad():
        empty.left[3] = 0
    with pytest.raises(ValueError, match=r"latent 3 is empty.*choose another"):
        empty.latent(3)
