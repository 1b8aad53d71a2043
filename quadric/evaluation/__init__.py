"""Quality of trained autoencoders on held-out text.

measures    error with its interval, density, dead and dense latents, error by position
recovered   cross-entropy and divergence recovered when reconstructed vectors are spliced into the language model
record      both, for one autoencoder
evaluating  both, for any number of autoencoders, with few passes of the language model
"""

from quadric.evaluation.evaluating import EvaluationSettings, evaluate_on_text
from quadric.evaluation.on_activations import evaluate
from quadric.evaluation.record import Evaluation

__all__ = ["Evaluation", "EvaluationSettings", "evaluate", "evaluate_on_text"]
