"""Steering, measured: what an intervention does to predictions, what it costs, and what controls do.

measures       distances between predictions
distances      distances of activations from a corpus
latent_tokens  the tokens by which a latent's effect is measured
methods        the latent's quadric, and the baselines
reading        what the model says to prompts and text, steered or not
curve          `quadric.steering_curve`: effect and damage, matched with baselines
ablation       whether ablating a latent hurts the tokens on which it fires, and no others
cyclic         ways from one word of an ordered concept to another, along a quadric and straight
of_run         all of these for a run folder, with the model, the evidence and the text that it records
files          their results as files
"""

from quadric.studies.steering.ablation import AblationRow, ablation_study
from quadric.studies.steering.curve import SteeringCurve, SteeringRow, steering_curve
from quadric.studies.steering.cyclic import CyclicRow, Question, cyclic_study
from quadric.studies.steering.of_run import ablate_run, open_run, steer_run

__all__ = [
    "AblationRow",
    "CyclicRow",
    "Question",
    "SteeringCurve",
    "SteeringRow",
    "ablate_run",
    "ablation_study",
    "cyclic_study",
    "open_run",
    "steer_run",
    "steering_curve",
]
