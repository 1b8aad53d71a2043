"""Trains autoencoders on any iterator of batches.

config       what is trained, and how
learner      one autoencoder, one step at a time, with its schedules
optimizers   which optimizer updates which parameters; Muon for dense and sparse matrices
loop         any number of learners on one stream
checkpoints  the state that a run needs to continue exactly where it stopped
distributed  sums and barriers over several processes
cost, plan   FLOPs, memory and disk of a run, predicted from its sizes
"""

from quadric.train.config import AutoencoderConfig, TrainingConfig
from quadric.train.learner import DivergedError, Learner, StepReport
from quadric.train.loop import InterruptedTraining, resume, train

__all__ = [
    "AutoencoderConfig",
    "DivergedError",
    "InterruptedTraining",
    "Learner",
    "StepReport",
    "TrainingConfig",
    "resume",
    "train",
]
