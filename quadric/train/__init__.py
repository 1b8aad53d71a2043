"""Trains dictionaries on any iterator of batches.

settings     how dictionaries are trained, and one cell of a run; no torch
learner      one dictionary, one step at a time, with its schedules
optimizers   which optimizer updates which parameters; Muon for dense and sparse matrices
loop         any number of learners on one stream
checkpoints  the state that a run needs to continue exactly where it stopped
distributed  means and barriers over several processes
cost, plan   FLOPs, memory and disk of a run, predicted from its sizes
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.train.learner import DivergedError, Learner
    from quadric.train.loop import Callback, InterruptedTraining, resume, train
    from quadric.train.settings import Cell, Training

# Resolved on first use: `settings` is read for every --help, which must not wait for torch.
_MODULE_OF = {
    "Callback": "loop",
    "Cell": "settings",
    "DivergedError": "learner",
    "InterruptedTraining": "loop",
    "Learner": "learner",
    "Training": "settings",
    "resume": "loop",
    "train": "loop",
}

__all__ = ["Callback", "Cell", "DivergedError", "InterruptedTraining", "Learner", "Training", "resume", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"quadric.train has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"quadric.train.{_MODULE_OF[name]}"), name)
