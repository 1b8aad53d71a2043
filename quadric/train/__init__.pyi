"""The names of the room, imported on first use (`quadric._io.attach`)."""

from .learner import DivergedError as DivergedError
from .learner import Learner as Learner
from .loop import Callback as Callback
from .loop import InterruptedTraining as InterruptedTraining
from .loop import resume as resume
from .loop import train as train
from .settings import Cell as Cell
from .settings import Training as Training
