"""Predicted FLOPs per token of the language model, compared with torch's count."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from quadric.data.forward import capture
from quadric.data.hook_points import HookPointError, parse_hook_points
from quadric.data.model_cost import reading_cost
from quadric.data.models import find_model, load_model
from tests.data import tiny

LENGTH = 16


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma3", "gpt2"])
@pytest.mark.parametrize("point", ["3", "resid_post.3"])
def test_predicted_flops_equal_those_of_a_stopped_forward_pass(architecture, point, tmp_path):
    source = find_model(str(tiny.save_tiny(tmp_path, architecture)))
    cost = reading_cost(source, point, LENGTH)
    assert cost.n_layers == (3 if point == "3" else 4)
    assert cost.d_model == tiny.D_MODEL
    model = load_model(source, device="cpu")
    assert cost.weight_bytes == 4 * sum(each.numel() for each in model.causal.parameters())
    tokens = tiny.random_tokens(2, LENGTH)
    with FlopCounterMode(display=False) as counter:
        capture(model, parse_hook_points(point, tiny.N_LAYERS), tokens)
    assert cost.flops_per_token == pytest.approx(counter.get_total_flops() / tokens.numel(), rel=0.15)


def test_a_missing_layer_is_named(tmp_path):
    with pytest.raises(HookPointError, match="names layer 9"):
        reading_cost(find_model(str(tiny.save_tiny(tmp_path))), "9", LENGTH)
