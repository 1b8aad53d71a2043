"""The names of the room, imported on first use (`quadric._io.attach`)."""

from .evaluating import Candidate as Candidate
from .evaluating import evaluate as evaluate
from .evaluating import evaluate_on_text as evaluate_on_text
from .record import Evaluation as Evaluation
from .settings import EvaluationSettings as EvaluationSettings
