"""Ablation: harm is measured at the right tokens, and the controls are what they say."""

import pytest
import torch

import quadric
from quadric.data.hook_points import parse_hook_point
from quadric.studies.steering.ablation import Harm, ablation_study, similar, sparsest_distinct, summarize
from quadric.studies.steering.reading import text_tokens
from tests.data.tiny import N_LAYERS
from tests.studies.steering.conftest import SENTENCES, Steerable

pytestmark = pytest.mark.slow

POINT = parse_hook_point("resid_pre.2", N_LAYERS)


def study(steerable: Steerable, **settings):
    sequences = text_tokens(steerable.model, SENTENCES, 40)
    return ablation_study(steerable.model, POINT, steerable.ae, steerable.evidence, sequences, **settings)


@pytest.mark.parametrize("mode", ["zero", "rest"])
def test_harm_against_a_loop_over_tokens(steerable: Steerable, mode) -> None:
    """One latent by hand, with `quadric.intervene` and plain sums."""
    row = study(steerable, n_latents=1, n_sequences=2, mode=mode)[0]
    model, ae, evidence = steerable.model, steerable.ae, steerable.evidence
    latent = ae.latent(row.latent)
    sequences = text_tokens(model, SENTENCES, 40)
    sign, rest = (float(each[row.latent]) for each in (evidence.calibration.signs, evidence.calibration.rest))
    limit = evidence.settings.firing_rms * float(evidence.statistics.mean_square[row.latent]) ** 0.5
    hidden = quadric.data.forward.capture(model, [POINT], sequences)["resid_pre.2"]
    values = latent.value(hidden.flatten(0, 1)).view(sequences.shape)
    fires = (values - sign * rest).abs() > limit
    counts = fires[:, 1:-1].sum(1)
    chosen = counts.argsort(descending=True, stable=True)[:2]
    before = model.causal(sequences[chosen]).logits.log_softmax(-1)
    change = latent.ablate() if mode == "zero" else latent.ablate(mode="rest", rest=sign * rest)
    with quadric.intervene(model, change, positions=slice(1, None), hook_point="resid_pre.2", check_model=False):
        after = model.causal(sequences[chosen]).logits.log_softmax(-1)
    harms: dict[bool, list[float]] = {True: [], False: []}
    for number, sequence in enumerate(chosen):
        for place in range(1, sequences.shape[1] - 1):
            following = sequences[sequence, place + 1]
            harm = before[number, place, following] - after[number, place, following]
            harms[bool(fires[sequence, place])].append(float(harm))
    assert (row.n_fires, row.n_elsewhere) == (len(harms[True]), len(harms[False]))
    assert row.own.fires == pytest.approx(sum(harms[True]) / len(harms[True]), abs=1e-4)
    assert row.own.elsewhere == pytest.approx(sum(harms[False]) / len(harms[False]), abs=1e-4)
    assert row.own.fires_divergence >= 0


def test_known_rows_are_not_measured_again(steerable: Steerable) -> None:
    seen = []
    rows = study(steerable, n_latents=2, n_sequences=1)
    again = study(steerable, n_latents=3, n_sequences=1, known=rows, on_row=seen.append)
    assert again[:2] == rows
    assert [row.latent for row in seen] == [again[2].latent]


def test_latents_are_the_sparsest_that_are_no_copies(steerable: Steerable) -> None:
    found = sparsest_distinct(steerable.ae, steerable.evidence)
    densities = [float(steerable.evidence.statistics.density[each]) for each in found]
    assert densities == sorted(densities)
    assert len(found) == quadric.geometry.redundancy(steerable.ae).n_distinct


def test_the_other_latent_is_another_of_near_rank() -> None:
    ranked = list(range(100, 200))
    drawn = {similar(ranked, 150, seed) for seed in range(200)}
    assert 150 not in drawn
    assert drawn == {*range(140, 150), *range(151, 161)}


def test_summaries_are_means_over_latents(steerable: Steerable) -> None:
    rows = study(steerable, n_latents=3, n_sequences=1)
    own, other, turned = summarize(rows)
    assert own.means["fires"].mean == pytest.approx(sum(row.own.fires for row in rows) / 3)
    assert own.more_where_fires == sum(row.own.fires > row.own.elsewhere for row in rows)
    assert [each.name for each in (other, turned)] == ["other", "turned"]
    assert set(own.means) == set(Harm._fields)
    assert rows[0].as_row()["turned_elsewhere"] == rows[0].turned.elsewhere


def test_text_on_which_nothing_fires_is_refused(steerable: Steerable) -> None:
    with pytest.raises(ValueError, match="no latent fires on 8 tokens of the text; give more text"):
        ablation_study(steerable.model, POINT, steerable.ae, steerable.evidence, torch.randint(3, 200, (1, 4)))
