"""Interventions inside a language model: exact where empty, the same with and without KV cache, readable errors."""

import pytest
import torch
from transformers import DynamicCache

import quadric
from quadric import BilinearAutoencoder
from quadric.data.forward import capture
from quadric.data.hook_points import HookPointError, parse_hook_point
from quadric.data.models import sampled_fingerprint
from quadric.interventions.in_model import check_positions, selected, token_positions
from quadric.model import Provenance
from tests.data.tiny import ARCHITECTURES, D_MODEL, N_LAYERS, random_tokens, tiny_causal, tiny_model

POINTS = ("resid_pre.0", "resid_pre.2", "attn_out.1", "mlp_out.1", "resid_post.1", f"resid_post.{N_LAYERS - 1}")
TOKENS = random_tokens(3, 9)
LEFT_PADDED = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9, [0] + [1] * 8])


def dictionary(hook_point: str | None = "resid_pre.2", **provenance) -> BilinearAutoencoder:
    made_by = Provenance(hook_point=hook_point, **provenance)
    return BilinearAutoencoder(
        d_model=D_MODEL, n_latents=40, prior="composite", mixing_density=0.05, provenance=made_by
    )


def empty_interventions(ae):
    """Everything that asks for no change."""
    latent = ae.latent(3)
    return {
        "nothing": (),
        "present value": (latent.project(to=lambda z: z),),
        "no angle": (latent.slide(by=0.0),),
        "factor 1": (latent.scale(by=1.0),),
        "several": (latent.slide(by=0.0), ae.latent(5).scale(by=1.0)),
    }


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_empty_intervention_leaves_logits_equal_to_the_bit(architecture):
    """Without KV cache, in a batch, with left padding."""
    model = tiny_causal(architecture)
    untouched = model(TOKENS, attention_mask=LEFT_PADDED, use_cache=False).logits
    for point in POINTS:
        for name, interventions in empty_interventions(dictionary(point)).items():
            with quadric.intervene(model, *interventions):
                logits = model(TOKENS, attention_mask=LEFT_PADDED, use_cache=False).logits
            assert torch.equal(logits, untouched), name
    ae = dictionary()
    for nowhere in ({"positions": []}, {"where": ae.latent(3).above(1e9)}):
        with quadric.intervene(model, ae.latent(3).ablate(), **nowhere):
            assert torch.equal(model(TOKENS, attention_mask=LEFT_PADDED, use_cache=False).logits, untouched)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_empty_intervention_leaves_generation_equal_to_the_bit(architecture):
    """With KV cache, in a batch, with left padding."""
    model = tiny_causal(architecture)
    untouched = generate(model)
    for interventions in empty_interventions(dictionary()).values():
        with quadric.intervene(model, *interventions):
            found = generate(model)
        assert torch.equal(found.sequences, untouched.sequences)
        assert all(torch.equal(a, b) for a, b in zip(found.logits, untouched.logits, strict=True))


def generate(model, **settings):
    return model.generate(
        TOKENS,
        attention_mask=LEFT_PADDED,
        max_new_tokens=6,
        min_new_tokens=6,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
        **settings,
    )


def by_hand(model, sequences):
    """Logits of a whole sequence in one forward pass without cache, with the positions that `generate` uses."""
    mask = torch.cat([LEFT_PADDED, LEFT_PADDED.new_ones(3, sequences.shape[1] - 9)], dim=1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return model(sequences, attention_mask=mask, position_ids=positions, use_cache=False).logits


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"positions": slice(4, None)}, {"positions": [2, 7, 10]}, {"where": True}])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2"])
def test_generate_equals_the_step_by_step_forward(architecture, settings):
    model, ae = tiny_causal(architecture), dictionary()
    if "where" in settings:
        settings = {"where": ae.latent(5).above(0.0)}
    untouched = generate(model)
    with quadric.intervene(model, ae.latent(3).project(to=2.0), **settings):
        found = generate(model)
        sequences = TOKENS
        for step in range(6):
            logits = by_hand(model, sequences)[:, -1]
            torch.testing.assert_close(logits, found.logits[step], rtol=1e-3, atol=1e-3)
            sequences = torch.cat([sequences, found.sequences[:, [9 + step]]], dim=1)
            assert torch.equal(logits.argmax(-1), found.sequences[:, 9 + step])
    assert not all(torch.allclose(a, b) for a, b in zip(found.logits, untouched.logits, strict=True))


@pytest.mark.parametrize("name", ["resid_pre.2", f"resid_post.{N_LAYERS - 1}"])
def test_activations_inside_the_model_have_the_value(name):
    """Later hooks see what the intervention wrote: z = τ at the norm of the original, and nothing else moved."""
    model, ae = tiny_model(), dictionary(name)
    point = parse_hook_point(name, N_LAYERS)
    latent = ae.latent(3)
    before = capture(model, [point], TOKENS)[str(point)].flatten(0, 1)
    with quadric.intervene(model, latent.project(to=0.7)):
        after = capture(model, [point], TOKENS)[str(point)].flatten(0, 1)
    z = latent.value(after, norms=before.norm(dim=1))
    assert float((z - 0.7).abs().max()) < 1e-5  # the model runs in float32
    outside = torch.eye(D_MODEL).double() - latent.axes.basis @ latent.axes.basis.mT
    torch.testing.assert_close(after.double() @ outside, before.double() @ outside, atol=1e-5, rtol=1e-5)


def test_only_chosen_positions_and_values_are_changed():
    model, ae = tiny_model(), dictionary()
    point = parse_hook_point("resid_pre.2", N_LAYERS)
    latent = ae.latent(3)
    before = capture(model, [point], TOKENS)["resid_pre.2"]
    z = latent.value(before.flatten(0, 1)).view(3, 9)
    threshold = float(z.median())
    for settings, expected in (
        ({"positions": [1, 4]}, torch.isin(torch.arange(9), torch.tensor([1, 4])).expand(3, 9)),
        ({"where": latent.above(threshold)}, z > threshold),
        ({"where": latent.below(threshold), "positions": 0}, (z < threshold) & (torch.arange(9) == 0)),
    ):
        with quadric.intervene(model, latent.ablate(), **settings):
            after = capture(model, [point], TOKENS)["resid_pre.2"]
        assert torch.equal((after != before).any(-1), expected)


def test_padding_is_left_alone():
    model, ae = tiny_causal(), dictionary()
    seen = []
    watch = model.model.layers[2].self_attn.register_forward_pre_hook(
        lambda _, __, named: seen.append(named["hidden_states"]), with_kwargs=True
    )
    model(TOKENS, attention_mask=LEFT_PADDED)
    with quadric.intervene(model, ae.latent(3).scale(by=3.0)):
        model(TOKENS, attention_mask=LEFT_PADDED)
    watch.remove()
    assert torch.equal((seen[0] != seen[1]).any(-1), LEFT_PADDED.bool())


def test_hooks_are_gone_after_the_block_even_after_an_error():
    model, ae = tiny_causal(), dictionary()
    untouched = model(TOKENS).logits
    with quadric.intervene(model, ae.latent(3).ablate()):
        assert not torch.equal(model(TOKENS).logits, untouched)
    with pytest.raises(KeyError), quadric.intervene(model, ae.latent(3).ablate()):
        raise KeyError
    assert torch.equal(model(TOKENS).logits, untouched)


def test_nested_blocks_act_one_after_the_other():
    model, ae = tiny_model(), dictionary()
    point = parse_hook_point("resid_pre.2", N_LAYERS)
    first, second = ae.latent(3).project(to=0.7), ae.latent(5).project(to=-0.7)
    before = capture(model, [point], TOKENS)["resid_pre.2"].flatten(0, 1)
    with quadric.intervene(model, first), quadric.intervene(model, second):
        after = capture(model, [point], TOKENS)["resid_pre.2"].flatten(0, 1)
    torch.testing.assert_close(after, second(first(before)))


def test_dictionaries_of_several_hook_points_act_at_their_own():
    model = tiny_model()
    early, late = dictionary("resid_pre.1"), dictionary("mlp_out.2")
    points = [parse_hook_point(name, N_LAYERS) for name in ("resid_pre.1", "mlp_out.2")]
    with quadric.intervene(model, early.latent(3).scale(by=0.0)):
        only_early = capture(model, points, TOKENS)
    with quadric.intervene(model, early.latent(3).scale(by=0.0), late.latent(5).scale(by=0.0)):
        both = capture(model, points, TOKENS)
    assert torch.equal(both["resid_pre.1"], only_early["resid_pre.1"])
    expected = late.latent(5).scale(only_early["mlp_out.2"].flatten(0, 1), by=0.0)
    torch.testing.assert_close(both["mlp_out.2"].flatten(0, 1), expected)


def test_errors_name_the_remedy():
    model = tiny_causal()
    intervention, of_rows = dictionary().latent(3).ablate(), dictionary(None).latent(3).ablate()
    of_other_model = dictionary(model="other", model_revision="sampled-sha256:0").latent(3).ablate()
    middle = {"hook_point": "resid_mid.1"}
    for error, match, interventions, settings in (
        (HookPointError, "does not record its hook point.*hook_point=", [of_rows], {}),
        (HookPointError, "cannot be replaced at resid_mid.1; give a dictionary", [intervention], middle),
        (HookPointError, "names layer 9", [intervention], {"hook_point": "resid_pre.9"}),
        (ValueError, "was trained on other .*load the model", [of_other_model], {}),
        (ValueError, "count from the first token", [intervention], {"positions": [-1]}),
    ):
        with pytest.raises(error, match=match) as caught, quadric.intervene(model, *interventions, **settings):
            pass
        assert "\n" not in str(caught.value)


def test_errors_during_a_forward_pass_name_the_remedy():
    model, ae = tiny_causal(), dictionary()
    tied = BilinearAutoencoder(d_model=D_MODEL, n_latents=4, prior="atomic", same_factors=True)
    narrow = BilinearAutoencoder(d_model=8, n_latents=4, prior="atomic")
    for match, intervention, settings in (
        ("latent 1 cannot take the value -1: it reaches .* … ∞", tied.latent(1).project(to=-1.0), {"hook_point": 2}),
        ("width 8, and resid_pre.2 has 32", narrow.latent(1).ablate(), {"hook_point": 2}),
        ("return one bool per token", ae.latent(3).ablate(), {"where": lambda x: x.sum()}),
    ):
        with pytest.raises(ValueError, match=match), quadric.intervene(model, intervention, **settings):
            model(TOKENS)
    with quadric.intervene(model, tied.latent(1).project(to=-1.0, unreachable="nearest"), hook_point=2):
        model(TOKENS)


def test_the_model_of_the_dictionary_is_accepted_and_the_check_can_be_left_out():
    model = tiny_causal()
    own = dictionary(model="tiny", model_revision=sampled_fingerprint(model))
    with quadric.intervene(model, own.latent(3).ablate()):
        pass
    with quadric.intervene(tiny_causal("qwen3"), own.latent(3).ablate(), check_model=False):
        pass


# Positions of the tokens that a forward pass reads.


DECODER = tiny_causal().get_decoder()
IDS = random_tokens(2, 5)


def test_without_a_mask_positions_count_from_the_start():
    assert token_positions(DECODER, (IDS,), {}).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_padding_on_either_side_has_no_position():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    found = token_positions(DECODER, (), {"input_ids": IDS, "attention_mask": mask})
    assert found.tolist() == [[-1, -1, 0, 1, 2], [0, 1, 2, 3, -1]]


def test_the_cache_counts():
    cache = DynamicCache(config=DECODER.config)
    DECODER(IDS, past_key_values=cache, use_cache=True)
    assert token_positions(DECODER, (IDS[:, :1],), {"past_key_values": cache}).tolist() == [[5], [5]]
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    found = token_positions(DECODER, (IDS[:, :1], mask), {"past_key_values": cache})
    assert found.tolist() == [[3], [5]]


def test_position_ids_stand_in_for_a_mask_that_is_not_a_matrix():
    named = {"attention_mask": {"full_attention": None}, "position_ids": torch.arange(3, 8)[None]}
    assert token_positions(DECODER, (IDS,), named).tolist() == [[3, 4, 5, 6, 7]] * 2


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(None, [0, 1, 2, 3]), (2, [2]), ([0, 3, 9], [0, 3]), (slice(1, 3), [1, 2]), (slice(1, None, 2), [1, 3]), ([], [])],
)
def test_selection(wanted, expected):
    positions = torch.tensor([[-1, 0, 1, 2, 3]])
    assert positions[selected(positions, wanted)].tolist() == expected


@pytest.mark.parametrize("wanted", [-1, [0, -2], slice(-3, None)])
def test_positions_from_the_end_are_refused(wanted):
    with pytest.raises(ValueError, match="count from the first token"):
        check_positions(wanted)
