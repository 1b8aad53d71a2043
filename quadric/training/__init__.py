"""Fits autoencoders to any iterator of batches.

config      what is trained, and how
schedules   alpha and mixing density as functions of the step
optimizers  who updates what
learner     one autoencoder, one step at a time
loop        any number of learners on one stream
checkpoints what a run needs to go on as if it had never stopped
across      the same over several processes
"""

from quadric.training.config import AutoencoderConfig, TrainingConfig
from quadric.training.learner import DivergedError, Learner, StepReport
from quadric.training.loop import InterruptedTraining, resume, train

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
