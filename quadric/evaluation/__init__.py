"""Quality of trained autoencoders on held-out text.

measures    error with its interval, density, dead and dense latents, error by position and by active latents, floor
blocks      error of the constant, linear and quadratic part
record      what was measured of one autoencoder, with the predictions that it recovers in the language model; files
evaluating  `quadric.evaluate`, and any number of autoencoders on text, with few passes of the language model
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
