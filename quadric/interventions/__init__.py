"""Interventions along the level sets of a latent: from weights alone, then inside a language model.

motion       the nearest point with a given value; slides and paths that keep the value
axes         a latent's own axes, and tokens in their coordinates
latents      `ae.latent(i)`: project, slide, ablate, scale, path; a direction held at a value
combining    several interventions at once
in_model     `quadric.intervene`: interventions during forward passes and `generate`
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
