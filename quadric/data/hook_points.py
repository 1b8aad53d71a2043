"""Names of hook points: many spellings are accepted, one canonical name is stored.

    resid_pre.L    residual stream into layer L (the paper's `layers.L`)
    attn_out.L     output of layer L's attention (or other token mixer)
    resid_mid.L    residual stream between layer L's attention and its MLP
    mlp_out.L      output of layer L's MLP
    resid_post.L   residual stream out of the last layer, before the final norm

The output of layer L is the input of layer L + 1, so `resid_post.L` is stored as `resid_pre.L+1` for every layer but
the last. `attn_out` and `mlp_out` are the outputs of the modules, before any norm that follows them (as in Gemma 3).
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

Site = Literal["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"]

SITES: tuple[Site, ...] = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
"""In the order in which a layer computes them."""

# The name of a layer alone means the residual stream into it, whatever the model calls its list of layers.
PARTS: dict[str, Site] = {
    "": "resid_pre",
    "hook_resid_pre": "resid_pre",
    "hook_resid_mid": "resid_mid",
    "hook_resid_post": "resid_post",
    "hook_attn_out": "attn_out",
    "hook_mlp_out": "mlp_out",
    "attn": "attn_out",
    "attention": "attn_out",
    "linear_attn": "attn_out",
    "self_attn": "attn_out",
    "mlp": "mlp_out",
}
MODULE_PATH = re.compile(r"(?:[a-z_]+\.)*(?:layers|h|blocks)\.(?P<layer>\d+)(?:\.(?P<part>\w+))?")
CANONICAL = re.compile(rf"(?P<site>{'|'.join(SITES)})\.(?P<layer>\d+)")


class HookPointError(ValueError):
    """A hook point that the model does not have."""


class HookPoint(NamedTuple):
    """A place in a language model where activations are read; sorts in the order of computation."""

    layer: int
    stage: int

    @property
    def site(self) -> Site:
        return SITES[self.stage]

    def __str__(self) -> str:
        return f"{self.site}.{self.layer}"


def parse_hook_point(text: str, n_layers: int) -> HookPoint:
    """The hook point with a given name, in any accepted spelling, in a model with `n_layers` layers.

    Args:
        text: A layer number, a canonical name such as `mlp_out.5`, or a path such as `blocks.5.hook_resid_post`.
        n_layers: Layers of the model; a layer beyond them is an error.

    Returns:
        The hook point, which prints as its canonical name.

    Example:
        >>> from quadric.data import parse_hook_point
        >>> str(parse_hook_point("15", n_layers=30))
        'resid_pre.15'
        >>> str(parse_hook_point("blocks.5.hook_resid_post", n_layers=30))
        'resid_pre.6'
    """
    layer, site = _layer_and_site(text.strip())
    if layer >= n_layers:
        remedy = f"give a layer from 0 to {n_layers - 1}"
        if layer == n_layers and site == "resid_pre":
            remedy += f", or resid_post.{n_layers - 1} for the output of the last layer"
        raise HookPointError(f"'{text}' names layer {layer}, but the model has {n_layers} layers; {remedy}")
    if site == "resid_post" and layer < n_layers - 1:
        layer, site = layer + 1, "resid_pre"
    return HookPoint(layer, SITES.index(site))


def parse_hook_points(texts: str | Sequence[str], n_layers: int) -> tuple[HookPoint, ...]:
    """Several hook points, given as a list or comma-separated: without duplicates, in the order of computation.

    Args:
        texts: Names in any spelling that `parse_hook_point` accepts.
        n_layers: Layers of the model.

    Returns:
        The hook points.

    Example:
        >>> from quadric.data import parse_hook_points
        >>> [str(point) for point in parse_hook_points("15,mlp_out.3,layers.15", n_layers=30)]
        ['mlp_out.3', 'resid_pre.15']
    """
    names = texts.split(",") if isinstance(texts, str) else texts
    points = sorted({parse_hook_point(name, n_layers) for name in names if name.strip()})
    if not points:
        raise HookPointError("no hook point given; name at least one, e.g. layers.18 or resid_pre.18")
    return tuple(points)


def _layer_and_site(text: str) -> tuple[int, Site]:
    if text.isdecimal():
        return int(text), "resid_pre"
    if match := CANONICAL.fullmatch(text):
        return int(match["layer"]), cast(Site, match["site"])
    if (match := MODULE_PATH.fullmatch(text)) and (match["part"] or "") in PARTS:
        return int(match["layer"]), PARTS[match["part"] or ""]
    raise HookPointError(
        f"unknown hook point '{text}'; give a layer number, layers.18, blocks.5.hook_resid_post, "
        f"model.layers.5.mlp, or one of {', '.join(f'{site}.5' for site in SITES)}"
    )
