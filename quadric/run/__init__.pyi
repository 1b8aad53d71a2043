"""The names of the room, imported on first use (`quadric._io.attach`)."""

from . import recipes as recipes
