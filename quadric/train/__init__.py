"""Trains dictionaries on any iterator of batches.

settings     how dictionaries are trained, and one cell of a run; no torch
learner      one dictionary, one step at a time, with its schedules
optimizers   which optimizer updates which parameters; Muon for dense and sparse matrices
loop         any number of learners on one stream
checkpoints  the state that a run needs to continue exactly where it stopped
distributed  means and barriers over several processes
"""

from quadric._io import attach

# `settings` are read for every --help, which must not wait for torch.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
