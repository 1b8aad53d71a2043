"""Names of hook points in other libraries, as Quadric spells them.

The output of layer L is stored as the input of layer L + 1. A folder does not say how many layers the model has, so
that the output of the last layer gets the name of a layer that does not exist; commands that run the model say so.
"""

import re

TRANSFORMER_LENS = re.compile(r"blocks\.(?P<layer>\d+)\.hook_(?P<site>resid_pre|resid_mid|resid_post|attn_out|mlp_out)")
MODULE = re.compile(r"(?:[a-z_]+\.)*(?:layers|h)\.(?P<layer>\d+)(?:\.(?P<part>\w+))?")
MODULE_OUTPUTS = {
    None: "resid_post",
    "attn": "attn_out",
    "attention": "attn_out",
    "self_attn": "attn_out",
    "mlp": "mlp_out",
}


def hook_point_of(name: str) -> str | None:
    """Quadric's name of a hook point of TransformerLens, or of the output of a module; None where it has none.

    Args:
        name: E.g. "blocks.8.hook_resid_pre" (TransformerLens), or "model.layers.8.mlp", which in SAELens and sparsify
            means the output of the module.

    Returns:
        E.g. "resid_pre.8".

    Example:
        >>> hook_point_of("blocks.8.hook_resid_pre"), hook_point_of("layers.8")
        ('resid_pre.8', 'resid_pre.9')
    """
    if match := TRANSFORMER_LENS.fullmatch(name):
        return _stored(match["site"], int(match["layer"]))
    if (match := MODULE.fullmatch(name)) and match["part"] in MODULE_OUTPUTS:
        return _stored(MODULE_OUTPUTS[match["part"]], int(match["layer"]))
    return None


def _stored(site: str, layer: int) -> str:
    return f"resid_pre.{layer + 1}" if site == "resid_post" else f"{site}.{layer}"
