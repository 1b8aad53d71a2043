"""Many spellings of a hook point are parsed to one canonical name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric.data.hook_points import HookPointError, parse_hook_point, parse_hook_points

N_LAYERS = 24


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("18", "resid_pre.18"),
        ("layers.18", "resid_pre.18"),
        ("model.layers.18", "resid_pre.18"),
        ("model.language_model.layers.18", "resid_pre.18"),
        ("transformer.h.3", "resid_pre.3"),
        ("gpt_neox.layers.3", "resid_pre.3"),
        ("blocks.5.hook_resid_pre", "resid_pre.5"),
        ("blocks.5.hook_resid_mid", "resid_mid.5"),
        ("blocks.5.hook_resid_post", "resid_pre.6"),
        ("blocks.23.hook_resid_post", "resid_post.23"),
        ("resid_post.5", "resid_pre.6"),
        ("resid_post.23", "resid_post.23"),
        ("model.layers.5.mlp", "mlp_out.5"),
        ("transformer.h.5.mlp", "mlp_out.5"),
        ("blocks.5.hook_mlp_out", "mlp_out.5"),
        ("model.layers.5.self_attn", "attn_out.5"),
        ("model.layers.5.linear_attn", "attn_out.5"),
        ("transformer.h.5.attn", "attn_out.5"),
        ("gpt_neox.layers.5.attention", "attn_out.5"),
        (" layers.0 ", "resid_pre.0"),
    ],
)
def test_every_spelling_has_one_name(spelling: str, canonical: str) -> None:
    assert str(parse_hook_point(spelling, N_LAYERS)) == canonical


@given(
    site=st.sampled_from(["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"]),
    layer=st.integers(0, N_LAYERS - 1),
)
def test_a_canonical_name_stays_as_it_is(site: str, layer: int) -> None:
    name = str(parse_hook_point(f"{site}.{layer}", N_LAYERS))
    assert str(parse_hook_point(name, N_LAYERS)) == name
    if site != "resid_post":
        assert name == f"{site}.{layer}"


@pytest.mark.parametrize("text", ["", "layer.5", "layers.-1", "layers.x", "model.layers.5.norm", "resid_pre", "5.mlp"])
def test_an_unknown_name_is_refused_with_examples(text: str) -> None:
    with pytest.raises(HookPointError, match=r"unknown hook point .* blocks\.5\.hook_resid_post"):
        parse_hook_point(text, N_LAYERS)


def test_a_missing_layer_is_an_error_that_names_the_existing_ones() -> None:
    with pytest.raises(HookPointError, match=r"'layers.99' names layer 99, .* from 0 to 23"):
        parse_hook_point("layers.99", N_LAYERS)
    with pytest.raises(HookPointError, match=r"resid_post\.23 for the output of the last layer"):
        parse_hook_point("layers.24", N_LAYERS)


def test_several_are_sorted_by_computation_and_deduplicated() -> None:
    points = parse_hook_points("15, mlp_out.3,resid_post.2,layers.3,attn_out.3", N_LAYERS)
    assert [str(point) for point in points] == ["resid_pre.3", "attn_out.3", "mlp_out.3", "resid_pre.15"]


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(HookPointError, match="no hook point given"):
        parse_hook_points(" , ", N_LAYERS)
