"""Quality of trained autoencoders on held-out text.

measures    error with its interval, density, dead and dense latents, error by position and by active latents
blocks      error of the constant, linear and quadratic part
floor       the least error that any tied dictionary of the same size could have
recovered   cross-entropy and divergence recovered when reconstructed vectors are spliced into the language model
record      all of them for one autoencoder, and their files
evaluating  `quadric.evaluate`, and any number of autoencoders on text, with few passes of the language model
"""

from quadric._io.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
