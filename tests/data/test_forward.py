"""Forward passes: activations recorded and replaced at hook points, in groups of similar length."""

import threading
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from quadric.data import forward
from quadric.data.forward import (
    ACCELERATOR_PASS_COST,
    PASS_COST,
    GroupTokens,
    LengthGroup,
    Replacement,
    capture,
    check_hook_points,
    groups_of,
    length_groups,
    pass_cost,
    predictions,
    reading_cost,
    run_in_groups,
)
from quadric.data.hook_points import HookPointError, parse_hook_point, parse_hook_points
from quadric.data.models import LanguageModel, find_model, load_model
from tests.data import tiny
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
        monkeypatch.setattr(forward, "PASS_COST", positions)
        return predictions(model, TOKENS, mask, replacement)

    together, apart = in_passes_that_cost(1000), in_passes_that_cost(0)
    assert torch.allclose(apart, together, atol=1e-4)
    assert apart[mask].any(dim=-1).all()
    assert not apart[~mask].any()
    with torch.no_grad():
        expected = model.causal(input_ids=TOKENS, attention_mask=mask.long()).logits
    assert torch.allclose(apart[mask], expected[mask], atol=1e-4) != replaced


LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def cheapest(lengths: list[int], cost: int, most: int) -> int:
    """The least cost over every way to cut the sorted lengths."""
    ordered, found = sorted(lengths), []
    for n_cuts in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), n_cuts):
            bounds = list(zip((0, *cuts), (*cuts, len(ordered)), strict=True))
            if all(end - start <= most for start, end in bounds):
                found.append(sum((end - start) * ordered[end - 1] + cost for start, end in bounds))
    return min(found)


@given(LENGTHS, st.integers(0, 50), st.integers(1, 8))
def test_groups_cost_least_and_hold_every_sequence_once(lengths: list[int], cost: int, most: int) -> None:
    groups = length_groups(lengths, cost, most)
    assert sum(group.positions + cost for group in groups) == cheapest(lengths, cost, most)
    assert sorted(place for group in groups for place in group.places) == list(range(len(lengths)))
    for group in groups:
        assert len(group.places) <= most
        assert group.length == max(lengths[place] for place in group.places)


@given(LENGTHS)
def test_a_free_pass_leaves_no_padding_and_equal_lengths_stay_together(lengths: list[int]) -> None:
    assert sum(group.positions for group in length_groups(lengths, 0)) == sum(lengths)
    assert length_groups([7] * len(lengths), 1) == [LengthGroup(list(range(len(lengths))), 7)]


@given(LENGTHS, st.integers(0, 50))
def test_groups_are_not_cut_further_when_they_are_grouped_again(lengths: list[int], cost: int) -> None:
    for group in length_groups(lengths, cost, 3):
        again = length_groups([lengths[place] for place in group.places], cost)
        assert sum(each.positions + cost for each in again) == group.positions + cost


def test_a_pass_costs_more_where_starting_it_takes_longer() -> None:
    assert pass_cost(torch.device("cpu")) == PASS_COST
    assert pass_cost(torch.device("meta")) == ACCELERATOR_PASS_COST > PASS_COST


def prefix_sums(group: GroupTokens) -> dict[str, Tensor]:
    """A causal model of one number: at every position the sum of the tokens so far."""
    return {"sum": group.tokens.cumsum(1)[..., None].float()}


@pytest.mark.parametrize("lengths", [[200, 3, 90, 200, 2, 91], [5], [1, 300]])
def test_results_are_in_the_order_of_the_sequences_and_zero_on_padding(lengths: list[int]) -> None:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(1, 50, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    computed = []

    def run(group: GroupTokens) -> dict[str, Tensor]:
        computed.append(group.tokens.numel())
        assert (group.attention_mask is None) == bool((group.tokens > 0).all())
        return prefix_sums(group)

    found = run_in_groups(run, tokens, mask)["sum"]
    assert torch.equal(
        found, prefix_sums(GroupTokens(torch.arange(len(lengths)), tokens, None))["sum"] * mask[..., None]
    )
    assert sum(computed) == sum(group.positions for group in groups_of(mask))


@pytest.mark.parametrize("mask", [None, torch.ones(3, 4, dtype=torch.bool)])
def test_without_padding_there_is_one_run_without_a_mask(mask: Tensor | None) -> None:
    tokens = torch.arange(12).reshape(3, 4)
    result = torch.randn(3, 4, 2)
    calls = []

    def run(group: GroupTokens) -> dict[str, Tensor]:
        calls.append(group)
        return {"result": result}

    assert run_in_groups(run, tokens, mask)["result"] is result
    (call,) = calls
    assert call.attention_mask is None
    assert torch.equal(call.tokens, tokens)


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
