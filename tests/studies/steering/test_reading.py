"""Prompts are read alike alone and in a padded batch, steered and not."""

import pytest
import torch

from quadric.data.hook_points import parse_hook_point
from quadric.studies.steering.reading import (
    continuation_cross_entropy,
    continuations,
    encode_prompts,
    next_token,
    recorded,
    steered,
)
from tests.data.tiny import ARCHITECTURES, N_LAYERS, tiny_model
from tests.studies.steering.conftest import Steerable

TEXTS = ["Monday comes", "The", "Tuesday is a day of"]
POINT = parse_hook_point("resid_pre.2", N_LAYERS)


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@pytest.mark.parametrize("change", [None, double])
def test_a_batch_equals_single_prompts(steerable: Steerable, change) -> None:
    model = steerable.model
    with steered(model, POINT, change):
        together = next_token(model, encode_prompts(model, TEXTS))
        alone = torch.cat([next_token(model, encode_prompts(model, [text])) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)


def test_steering_leaves_the_first_token_alone(steerable: Steerable) -> None:
    model = steerable.model
    seen = []
    watch = model.layers[2].self_attn.register_forward_pre_hook(
        lambda _, __, named: seen.append(named["hidden_states"]), with_kwargs=True
    )
    prompts = encode_prompts(model, TEXTS[:1])
    for change in (None, lambda x: x + 1):
        with steered(model, POINT, change):
            next_token(model, prompts)
    watch.remove()
    changed = (seen[0] != seen[1]).any(-1)[0]
    assert not changed[0]
    assert changed[1:].all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["resid_pre.2", "resid_pre.0", "mlp_out.1", "resid_post.3"])
def test_known_activations_save_layers_and_change_nothing(architecture: str, name: str) -> None:
    model, point = tiny_model(architecture), parse_hook_point(name, N_LAYERS)
    prompts = encode_prompts(model, TEXTS)
    with recorded(model, point) as known:
        unmodified = next_token(model, prompts)
    for change in (None, double, lambda x: x + 1):
        with steered(model, point, change):
            expected = next_token(model, prompts)
        with steered(model, point, change, known[0]):
            found = next_token(model, prompts)
        assert torch.equal(found, expected)
    assert torch.equal(next_token(model, prompts), unmodified)  # nothing is left behind
    if name == "resid_pre.2":
        with pytest.raises(ZeroDivisionError), steered(model, point, lambda x: 1 / 0, known[0]):
            next_token(model, prompts)
        assert torch.equal(next_token(model, prompts), unmodified)


def test_continuations_are_sampled_by_seed_and_scored(steerable: Steerable) -> None:
    model = steerable.model
    prompts = encode_prompts(model, TEXTS)
    state = torch.random.get_rng_state()
    first, again, other = (continuations(model, prompts, 5, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    found = continuation_cross_entropy(model, prompts, first)
    for text, new, value in zip(TEXTS, first, found, strict=True):
        tokens = torch.cat([encode_prompts(model, [text]).tokens[0], new])
        log_p = model.causal(tokens[None]).logits[0].log_softmax(-1)
        naive = -torch.stack([log_p[place - 1, tokens[place]] for place in range(len(tokens) - 5, len(tokens))]).mean()
        assert abs(float(value - naive)) < 1e-3


def test_a_prompt_of_one_token_is_refused(steerable: Steerable) -> None:
    with pytest.raises(ValueError, match=r"prompt 'a' has 1 tokens.*give longer ones"):
        encode_prompts(steerable.model, ["a"])
