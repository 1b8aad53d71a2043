"""The names of the room, imported on first use (`quadric._io.lazy`)."""

from . import recipes as recipes
