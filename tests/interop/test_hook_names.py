"""Hook points in other libraries' words; what one library writes, `hook_point_of` reads."""

import pytest

from quadric.interop.hook_names import module_name, transformer_lens_name
from quadric.interop.reading.places import hook_point_of


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
