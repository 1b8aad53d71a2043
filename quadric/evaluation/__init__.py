"""Quality of trained autoencoders on held-out text.

measures    error with its interval, density, dead and dense latents, error by position
recovered   cross-entropy and divergence recovered when reconstructed vectors are spliced into the language model
record      both, for one autoencoder
evaluating  both, for any number of autoencoders, with few passes of the language model
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.evaluation.evaluating import Candidate, evaluate_on_text
    from quadric.evaluation.on_activations import evaluate
    from quadric.evaluation.record import Evaluation
    from quadric.evaluation.settings import EvaluationSettings

# Resolved on first use: the command line reads the settings without waiting for torch.
_HOME = {
    "Candidate": "evaluating",
    "Evaluation": "record",
    "EvaluationSettings": "settings",
    "evaluate": "on_activations",
    "evaluate_on_text": "evaluating",
}

__all__ = ["Candidate", "Evaluation", "EvaluationSettings", "evaluate", "evaluate_on_text"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"quadric.evaluation.{_HOME[name]}"), name)
    raise AttributeError(f"module 'quadric.evaluation' has no attribute {name!r}; it offers {', '.join(__all__)}")
