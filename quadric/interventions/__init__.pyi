"""The names of the room, imported on first use (`quadric._io.attach`)."""

from .combining import Combination as Combination
from .combining import Intervention as Intervention
from .in_model import intervene as intervene
from .latents import Latent as Latent
from .motion import Reach as Reach
from .motion import nearest_steps as nearest_steps
