"""Steering, measured: what an intervention does to predictions, what it costs, and what controls do.

measures       distances between predictions
distances      distances of activations from a corpus
latent_tokens  the tokens by which a latent's effect is measured
methods        the latent's quadric, and the baselines
reading        what the model says to prompts and text, steered or not
curve          `quadric.steering_curve`: effect and damage, matched with baselines
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.steering.curve import SteeringCurve, SteeringRow, steering_curve

# Resolved on first use: the command line reads names without waiting for torch.
_HOME = {"SteeringCurve": "curve", "SteeringRow": "curve", "steering_curve": "curve"}

__all__ = ["SteeringCurve", "SteeringRow", "steering_curve"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"quadric.steering.{_HOME[name]}"), name)
    raise AttributeError(f"module 'quadric.steering' has no attribute {name!r}; it offers {', '.join(__all__)}")
