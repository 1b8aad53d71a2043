"""Captured activations equal the model's hidden states, and no layer after the last hook point runs."""

import threading

import pytest
import torch
from torch import Tensor, nn

from quadric.data.capture import capture, check_hook_points
from quadric.data.hook_points import HookPointError, parse_hook_points
from quadric.data.models import LanguageModel
from tests.data.tiny import ARCHITECTURES, D_MODEL, N_LAYERS, random_tokens, tiny_model

EVERYWHERE = ",".join(f"resid_pre.{layer}" for layer in range(N_LAYERS)) + f",resid_post.{N_LAYERS - 1}"


def padded_batch() -> tuple[Tensor, Tensor]:
    """Four sequences of different lengths, padded on the right."""
    tokens, lengths = random_tokens(4, 24), torch.tensor([24, 7, 15, 1])
    mask = torch.arange(24) < lengths[:, None]
    return tokens.masked_fill(~mask, 0), mask


def assert_same_vectors(found: Tensor, expected: Tensor) -> None:
    """Equal to float tolerance, each vector relative to its own length."""
    assert found.shape == expected.shape
    error = (found - expected).detach().norm(dim=-1) / expected.norm(dim=-1)
    assert error.max().item() < 3e-5


def final_norm(model: LanguageModel) -> nn.Module:
    decoder = model.decoder
    return next(getattr(decoder, name) for name in ("norm", "ln_f", "final_layer_norm") if hasattr(decoder, name))


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_activations_are_the_hidden_states(architecture: str, padding: bool) -> None:
    model = tiny_model(architecture)
    tokens, mask = padded_batch() if padding else (random_tokens(4, 24), torch.ones(4, 24, dtype=torch.bool))
    found = capture(model, parse_hook_points(EVERYWHERE, N_LAYERS), tokens, mask if padding else None)
    with torch.no_grad():
        expected = model.causal(input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    assert len(expected) == N_LAYERS + 1
    for layer in range(N_LAYERS):
        assert_same_vectors(found[f"resid_pre.{layer}"][mask], expected[layer][mask])
    # The last of the hidden states has gone through the final norm; the residual stream has not.
    last = final_norm(model)(found[f"resid_post.{N_LAYERS - 1}"])
    assert_same_vectors(last[mask], expected[-1][mask])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_padding_does_not_change_the_activations_of_a_document(architecture: str) -> None:
    model = tiny_model(architecture)
    tokens, mask = padded_batch()
    points = parse_hook_points(EVERYWHERE, N_LAYERS)
    together = capture(model, points, tokens, mask)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        alone = capture(model, points, tokens[row : row + 1, :length])
        for name, vectors in alone.items():
            assert_same_vectors(together[name][row, :length], vectors[0])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parts_of_a_layer_add_up(architecture: str) -> None:
    model = tiny_model(architecture)
    parallel = architecture == "gpt_neox"
    sites = ["resid_pre.1", "attn_out.1", "mlp_out.1", "resid_post.1"] + ([] if parallel else ["resid_mid.1"])
    found = capture(model, parse_hook_points(sites, N_LAYERS), random_tokens(2, 12))
    before, after = found["resid_pre.1"], found["resid_pre.2"]
    attention, mlp = found["attn_out.1"], found["mlp_out.1"]
    if architecture == "gemma3":  # normalizes the outputs of its modules before adding them
        attention = model.layers[1].post_attention_layernorm(attention)
        mlp = model.layers[1].post_feedforward_layernorm(mlp)
    assert_same_vectors(before + attention + mlp, after)
    if not parallel:
        assert_same_vectors(before + attention, found["resid_mid.1"])
    assert not torch.allclose(before, after, atol=1e-2)


def test_resid_mid_does_not_exist_in_a_parallel_layer() -> None:
    model = tiny_model("gpt_neox")
    with pytest.raises(HookPointError, match=r"resid_mid.1 does not exist: GPTNeoXLayer .* give resid_pre.1"):
        check_hook_points(model, parse_hook_points("resid_mid.1", N_LAYERS))
    sequential = tiny_model("gpt_neox", use_parallel_residual=False)
    found = capture(sequential, parse_hook_points("resid_pre.1,attn_out.1,resid_mid.1", N_LAYERS), random_tokens(1, 5))
    torch.testing.assert_close(found["resid_pre.1"] + found["attn_out.1"], found["resid_mid.1"])


def count_calls(model: LanguageModel) -> dict[str, int]:
    """Calls of every layer, of the final norm and of the head, counted from now on."""
    calls = {f"layer {index}": 0 for index in range(N_LAYERS)} | {"final norm": 0, "head": 0}
    watched = dict(zip(calls, [*model.layers, final_norm(model), model.causal.get_output_embeddings()], strict=True))

    def counter(name: str):
        def hook(*_: object) -> None:
            calls[name] += 1

        return hook

    for name, module in watched.items():
        # Counted after the module has run: the input of layer 2 is read on entering it, without running it.
        module.register_forward_hook(counter(name))
    return calls


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_runs_after_the_last_hook(architecture: str) -> None:
    model = tiny_model(architecture)
    calls = count_calls(model)
    points = parse_hook_points("resid_pre.1,resid_pre.2", N_LAYERS)
    capture(model, points, random_tokens(2, 8))
    assert calls == {"layer 0": 1, "layer 1": 1, "layer 2": 0, "layer 3": 0, "final norm": 0, "head": 0}
    capture(model, points, random_tokens(2, 8), early_stop=False)
    assert calls == {"layer 0": 2, "layer 1": 2, "layer 2": 1, "layer 3": 1, "final norm": 1, "head": 0}


def test_the_last_hook_inside_a_layer_stops_before_the_rest_of_it() -> None:
    model = tiny_model("llama")
    ran: list[str] = []
    model.layers[1].mlp.register_forward_hook(lambda *_: ran.append("mlp"))
    capture(model, parse_hook_points("resid_mid.1", N_LAYERS), random_tokens(1, 4))
    assert ran == []
    capture(model, parse_hook_points("mlp_out.1", N_LAYERS), random_tokens(1, 4))
    assert ran == ["mlp"]


def test_hooks_are_removed_even_if_the_model_fails() -> None:
    model = tiny_model("llama")
    with pytest.raises(IndexError):
        capture(model, parse_hook_points("2", N_LAYERS), torch.full((1, 3), 10_000))
    assert not model.layers[2]._forward_pre_hooks
    logits = model.causal(input_ids=random_tokens(1, 3)).logits
    assert logits.shape == (1, 3, 300)


def test_another_thread_can_use_the_model_at_the_same_time() -> None:
    model, tokens = tiny_model("llama"), random_tokens(1, 6)
    expected = model.causal(input_ids=tokens).logits
    meanwhile: list[Tensor] = []
    points = parse_hook_points("2", N_LAYERS)

    def inside_the_capture(*_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            other = threading.Thread(target=lambda: meanwhile.append(model.causal(input_ids=tokens).logits))
            other.start()
            other.join()

    model.layers[1].register_forward_hook(inside_the_capture)
    assert set(capture(model, points, tokens)) == {"resid_pre.2"}
    assert torch.equal(meanwhile[0], expected)


def test_activations_can_be_trained_on() -> None:
    found = capture(tiny_model("llama"), parse_hook_points("2", N_LAYERS), random_tokens(1, 3))["resid_pre.2"]
    weight = torch.ones(D_MODEL, requires_grad=True)
    (found @ weight).square().sum().backward()
    assert weight.grad is not None
    assert bool(weight.grad.abs().sum() > 0)
