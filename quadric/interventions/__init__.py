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

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
