"""Replacing vectors inside a language model."""

import pytest
import torch

from quadric.data import length_groups
from quadric.data.capture import capture
from quadric.data.hook_points import HookPointError, parse_hook_point
from quadric.data.splicing import Replacement, predictions
from tests.data.tiny import ARCHITECTURES, N_LAYERS, tiny_model

TOKENS = torch.randint(2, 250, (3, 11), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "name", ["resid_pre.0", "resid_pre.2", "attn_out.1", "mlp_out.1", f"resid_post.{N_LAYERS - 1}"]
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_replacing_vectors_by_themselves_changes_nothing(architecture, name):
    model = tiny_model(architecture)
    point = parse_hook_point(name, N_LAYERS)
    own = capture(model, [point], TOKENS)[str(point)]
    mask = torch.ones_like(TOKENS, dtype=torch.bool)
    untouched = predictions(model, TOKENS)
    assert torch.equal(predictions(model, TOKENS, None, Replacement(point, mask, own[mask])), untouched)
    changed = predictions(model, TOKENS, None, Replacement(point, mask, 2 * own[mask].roll(1, dims=0)))
    assert not torch.allclose(changed, untouched, atol=1e-2)
    assert torch.equal(predictions(model, TOKENS), untouched)  # the hook was removed


def test_only_masked_positions_are_replaced_and_earlier_predictions_stay_the_same():
    model = tiny_model()
    point = parse_hook_point("1", N_LAYERS)
    mask = torch.zeros_like(TOKENS, dtype=torch.bool)
    mask[1, 5] = True
    changed = predictions(model, TOKENS, None, Replacement(point, mask, torch.full((1, 32), 3.0)))
    untouched = predictions(model, TOKENS)
    assert torch.allclose(changed[[0, 2]], untouched[[0, 2]], atol=1e-5)
    assert torch.allclose(changed[1, :5], untouched[1, :5], atol=1e-5)
    assert not torch.allclose(changed[1, 5:], untouched[1, 5:], atol=1e-2)


def test_resid_mid_cannot_be_replaced():
    point = parse_hook_point("resid_mid.1", N_LAYERS)
    mask = torch.ones_like(TOKENS, dtype=torch.bool)
    with pytest.raises(HookPointError, match=r"cannot be replaced at resid_mid\.1; give a dictionary of resid_pre"):
        predictions(tiny_model(), TOKENS, None, Replacement(point, mask, torch.zeros(33, 32)))


@pytest.mark.parametrize("replaced", [False, True])
def test_sequences_of_different_lengths_are_predicted_as_in_one_padded_pass(replaced, monkeypatch):
    model, point = tiny_model(), parse_hook_point("2", N_LAYERS)
    mask = torch.arange(11) < torch.tensor([6, 11, 3])[:, None]
    kept = mask & (torch.arange(11) % 2 == 1)
    vectors = torch.randn(int(kept.sum()), 32, generator=torch.Generator().manual_seed(1))
    replacement = Replacement(point, kept, vectors) if replaced else None

    def in_passes_that_cost(positions):
        monkeypatch.setattr(length_groups, "PASS_COST", positions)
        return predictions(model, TOKENS, mask, replacement)

    together, apart = in_passes_that_cost(1000), in_passes_that_cost(0)
    assert torch.allclose(apart, together, atol=1e-4)
    assert apart[mask].any(dim=-1).all()
    assert not apart[~mask].any()
    with torch.no_grad():
        expected = model.causal(input_ids=TOKENS, attention_mask=mask.long()).logits
    assert torch.allclose(apart[mask], expected[mask], atol=1e-4) != replaced
