"""Hook points in other libraries' words, and theirs in ours; what one library writes, `hook_point_of` reads."""

import pytest

from quadric.data import parse_hook_point
from quadric.interop.hook_names import hook_point_of, module_name, transformer_lens_name


@pytest.mark.parametrize(
    ("own", "lens", "module"),
    [
        ("resid_pre.15", "blocks.15.hook_resid_pre", "layers.14"),
        ("resid_pre.0", "blocks.0.hook_resid_pre", "embed_tokens"),
        ("attn_out.3", "blocks.3.hook_attn_out", "layers.3.self_attn"),
        ("mlp_out.3", "blocks.3.hook_mlp_out", "layers.3.mlp"),
        ("resid_mid.3", "blocks.3.hook_resid_mid", "resid_mid.3"),
        ("resid_post.29", "blocks.29.hook_resid_post", "layers.29"),
    ],
)
def test_names(own: str, lens: str, module: str) -> None:
    found = transformer_lens_name(own)
    assert found is not None
    assert (found.name, module_name(own)) == (lens, module)


@pytest.mark.parametrize("own", ["resid_pre.15", "attn_out.3", "mlp_out.3", "resid_mid.3"])
def test_names_are_read_back(own: str) -> None:
    found = transformer_lens_name(own)
    assert found is not None
    assert hook_point_of(found.name) == own


@pytest.mark.parametrize("own", ["resid_pre.15", "attn_out.3", "mlp_out.3"])
def test_modules_are_read_back(own: str) -> None:
    assert hook_point_of(module_name(own) or "") == own


def test_unknown_hook_points_have_no_name() -> None:
    assert transformer_lens_name(None) is None
    assert transformer_lens_name("rows") is None
    assert module_name(None) is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("blocks.8.hook_resid_pre", "resid_pre.8"),
        ("blocks.8.hook_resid_mid", "resid_mid.8"),
        ("blocks.8.hook_resid_post", "resid_pre.9"),
        ("blocks.8.hook_mlp_out", "mlp_out.8"),
        ("blocks.8.hook_attn_out", "attn_out.8"),
        ("layers.8", "resid_pre.9"),
        ("model.layers.8", "resid_pre.9"),
        ("transformer.h.8.attn", "attn_out.8"),
        ("model.layers.8.mlp", "mlp_out.8"),
    ],
)
def test_names_of_other_libraries(name: str, place: str) -> None:
    assert hook_point_of(name) == place
    if name.startswith("blocks"):
        assert str(parse_hook_point(name, n_layers=30)) == place


@pytest.mark.parametrize("name", ["", "blocks.8.attn.hook_z", "layers.8.mlp.down_proj", "embed", "layers.x"])
def test_places_without_a_name_here(name: str) -> None:
    assert hook_point_of(name) is None
