"""Hook points of other libraries in Quadric's words."""

import pytest

from quadric.data import parse_hook_point
from quadric.interop.reading.places import hook_point_of


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
def test_names(name: str, place: str) -> None:
    assert hook_point_of(name) == place
    if name.startswith("blocks"):
        assert str(parse_hook_point(name, n_layers=30)) == place


@pytest.mark.parametrize("name", ["", "blocks.8.attn.hook_z", "layers.8.mlp.down_proj", "embed", "layers.x"])
def test_places_without_a_name_here(name: str) -> None:
    assert hook_point_of(name) is None
