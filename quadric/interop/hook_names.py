"""Hook points as other libraries spell them; `quadric.interop.reading.places` reads the same names."""

from typing import NamedTuple

from quadric.data.hook_points import CANONICAL

MODULES = {"attn_out": "layers.{}.self_attn", "mlp_out": "layers.{}.mlp", "resid_post": "layers.{}"}
"""The module whose output a hook point is, below the model's own prefix."""


class HookName(NamedTuple):
    """A hook point of TransformerLens."""

    layer: int
    kind: str
    """E.g. hook_resid_pre."""

    @property
    def name(self) -> str:
        """E.g. blocks.15.hook_resid_pre."""
        return f"blocks.{self.layer}.{self.kind}"


def transformer_lens_name(hook_point: str | None) -> HookName | None:
    """A hook point in TransformerLens's words; None if it is not known.

    Args:
        hook_point: Quadric's own name, e.g. resid_pre.15.

    Returns:
        The layer and kind, e.g. of blocks.15.hook_resid_pre.

    Example:
        >>> transformer_lens_name("resid_pre.15").name
        'blocks.15.hook_resid_pre'
    """
    found = CANONICAL.fullmatch(hook_point or "")
    return None if found is None else HookName(int(found["layer"]), f"hook_{found['site']}")


def module_name(hook_point: str | None) -> str | None:
    """The module of `transformers` whose output a hook point is; its own name where no module has it.

    Args:
        hook_point: Quadric's own name, e.g. resid_pre.15, the output of layer 14.

    Returns:
        E.g. layers.14.

    Example:
        >>> module_name("resid_pre.15"), module_name("resid_pre.0"), module_name("resid_mid.3")
        ('layers.14', 'embed_tokens', 'resid_mid.3')
    """
    found = CANONICAL.fullmatch(hook_point or "")
    if found is None:
        return None
    site, layer = found["site"], int(found["layer"])
    if site == "resid_pre":
        return f"layers.{layer - 1}" if layer else "embed_tokens"
    return MODULES[site].format(layer) if site in MODULES else hook_point
