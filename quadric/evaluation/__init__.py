"""How good a trained autoencoder is, on text that it was not trained on.

measures    error with its interval, density, dead and dense latents, error by position
recovered   how much of the language model's predictions survives the rebuilt vectors
record      both, for one autoencoder
evaluating  both, for any number of autoencoders, from as few passes of the language model as possible
"""

from quadric.evaluation.evaluating import EvaluationSettings, evaluate_on_text
from quadric.evaluation.on_activations import evaluate
from quadric.evaluation.record import Evaluation

__all__ = ["Evaluation", "EvaluationSettings", "evaluate", "evaluate_on_text"]
