"""Steering, measured: what an intervention does to predictions, what it costs, and what controls do.

measures   distances of predictions, and of activations from a corpus; the tokens by which a latent's effect is measured
methods    the latent's quadric, and the baselines
reading    what the model says to prompts and text, steered or not
curve      `quadric.steering_curve`: effect and damage, matched with baselines
results    the rows of a curve, means over seeds, and its file
ablation   whether ablating a latent hurts the tokens on which it fires, and no others
of_run     all of these for a run folder, with the model, the evidence and the text that it records
terminal   curves and ablations as tables
"""

from quadric.studies.steering.ablation import AblationRow, ablation_study
from quadric.studies.steering.curve import steering_curve
from quadric.studies.steering.of_run import ablate_run, open_run, steer_run
from quadric.studies.steering.results import SteeringCurve, SteeringRow

__all__ = [
    "AblationRow",
    "SteeringCurve",
    "SteeringRow",
    "ablate_run",
    "ablation_study",
    "open_run",
    "steer_run",
    "steering_curve",
]
