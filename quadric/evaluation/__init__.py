"""Quality of trained autoencoders on held-out text.

measures    error with its interval, density, dead and dense latents, error by position
recovered   cross-entropy and divergence recovered when reconstructed vectors are spliced into the language model
record      both, for one autoencoder
evaluating  both, for any number of autoencoders, with few passes of the language model
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
