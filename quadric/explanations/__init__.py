"""Text in, latents out: which latents explain each token of a text, and where in it every latent fires.

reading      a text through the language model, as the dictionary's own training text was read
record       `Explanation` and its parts, and files of them
explaining   `quadric.explain`, and `Explainer`, which keeps the model for many texts
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
