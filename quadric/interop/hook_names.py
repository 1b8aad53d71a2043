"""Hook points as other libraries spell them.

The output of layer L is stored as the input of layer L + 1. A folder does not say how many layers the model has, so
that the output of the last layer gets the name of a layer that does not exist; commands that run the model say so.
"""

import re
from typing import NamedTuple

SITE = r"(?P<site>resid_pre|resid_mid|resid_post|attn_out|mlp_out)"
# Written here and not taken from quadric.data, so that weights are read without it.
OURS = re.compile(SITE + r"\.(?P<layer>\d+)")
TRANSFORMER_LENS = re.compile(r"blocks\.(?P<layer>\d+)\.hook_" + SITE)
MODULE = re.compile(r"(?:[a-z_]+\.)*(?:layers|h)\.(?P<layer>\d+)(?:\.(?P<part>\w+))?")
MODULE_OUTPUTS = {
    None: "resid_post",
    "attn": "attn_out",
    "attention": "attn_out",
    "self_attn": "attn_out",
    "mlp": "mlp_out",
}
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

    Example:
        >>> transformer_lens_name("resid_pre.15").name
        'blocks.15.hook_resid_pre'
    """
    match = OURS.fullmatch(hook_point or "")
    return None if match is None else HookName(int(match["layer"]), f"hook_{match['site']}")


def module_name(hook_point: str | None) -> str | None:
    """The module of `transformers` whose output a hook point is; its own name where no module has it.

    Example:
        >>> module_name("resid_pre.15"), module_name("resid_pre.0"), module_name("resid_mid.3")
        ('layers.14', 'embed_tokens', 'resid_mid.3')
    """
    match = OURS.fullmatch(hook_point or "")
    if match is None:
        return None
    site, layer = match["site"], int(match["layer"])
    if site == "resid_pre":
        return f"layers.{layer - 1}" if layer else "embed_tokens"
    return MODULES[site].format(layer) if site in MODULES else hook_point


def hook_point_of(name: str) -> str | None:
    """Quadric's name of a hook point of TransformerLens, or of the output of a module; None where it has none.

    Example:
        >>> hook_point_of("blocks.8.hook_resid_pre"), hook_point_of("layers.8")
        ('resid_pre.8', 'resid_pre.9')
    """
    if match := TRANSFORMER_LENS.fullmatch(name):
        site = match["site"]
    elif (match := MODULE.fullmatch(name)) and match["part"] in MODULE_OUTPUTS:
        site = MODULE_OUTPUTS[match["part"]]
    else:
        return None
    return f"resid_pre.{int(match['layer']) + 1}" if site == "resid_post" else f"{site}.{int(match['layer'])}"
