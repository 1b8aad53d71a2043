"""Dictionaries of latents over token vectors: bilinear autoencoders, and linear baselines to compare them with.

settings    what each kind can be told, one dataclass per kind; no torch
terms       the loss as a list of terms
step        what a term can ask for about one batch, in plain autograd
dictionary  the one interface of every dictionary
forms       the latents as geometry sees them: quadratic forms, or directions
bilinear    the model: lens, L, R and a mixing C
mixing      the matrix C from atoms to latents: identity, dense or masked
lens        the fixed affine map before the forms
linear      TopK, BatchTopK and what other libraries train
objective   unit tokens, error and density as pure functions
processes   sums over the processes of a job
rank_one    from the reconstruction X̂ back to a vector
storage     saving and loading
fast        what is measured to pay: the same mathematics, faster; training works without it
"""

from quadric._io import attach

# `settings` are read for every --help, which must not wait for torch.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
