"""Runs: from a config to a folder with trained autoencoders, their geometry, evidence and site.

config         the config of a run, stored as run.json
recipes        functions that return configs: the paper's, a small one, the demo's
running        trains a run from its config
folder         the files of a run, and how to load them
telemetry      writes the metrics of every step
geometry       the shape of the latents, computed once and kept in the run
evidence       collects evidence about a run's latents from data
sites          a site about one or several runs
exporting      a dictionary, or its evidence, in the format of another tool
demonstration  the whole pipeline on the embedded model and text
hub            push and pull autoencoders
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
