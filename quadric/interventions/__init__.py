"""Interventions along the level sets of a latent: from weights alone, then inside a language model.

projection   the nearest point with a given value: the secular equation
motion       slides and paths that keep the value
axes         a latent's own axes, and tokens in their coordinates
latents      `ae.latent(i)`: project, slide, ablate, scale, path
clamping     a latent of a linear dictionary held at a value
combining    several interventions at once
positions    which tokens a forward pass reads, with KV cache and padding
in_model     `quadric.intervene`: interventions during forward passes and `generate`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadric.interventions.combining import Combination, Intervention
from quadric.interventions.latents import Latent
from quadric.interventions.projection import Reach

if TYPE_CHECKING:
    from quadric.interventions.in_model import intervene

__all__ = ["Combination", "Intervention", "Latent", "Reach", "intervene"]


def __getattr__(name: str) -> Any:
    # On first use: everything else here needs weights only, and no language model.
    if name == "intervene":
        return import_module("quadric.interventions.in_model").intervene
    raise AttributeError(f"module 'quadric.interventions' has no attribute {name!r}; it offers {', '.join(__all__)}")
