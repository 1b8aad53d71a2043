"""Hook points as other tools spell them: `resid_pre.15` is `blocks.15.hook_resid_pre` in TransformerLens."""

from typing import NamedTuple

from quadric.activations.hook_points import CANONICAL



class HookName(NamedTuple):
    """One hook point, in the words of TransformerLens."""

    layer: int
    name: str
    """E.g. blocks.15.hook_resid_pre."""
    kind: str
    """E.g. hook_resid_pre."""


def transformer_lens_name(hook_point: str | None) -> HookName | None:
    """A canonical hook point in TransformerLens's words; None if there is none or it is not canonical."""
    found = CANONICAL.fullmatch(hook_point or "")
    if found is None:
        return None
    layer, kind = int(found["layer"]), f"hook_{found['site']}"
    return HookName(layer, f"blocks.{layer}.{kind}", kind)
