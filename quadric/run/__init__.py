"""Runs: from a config to a folder with trained autoencoders, their geometry, evidence and site.

config         the config of a run, stored as run.json
recipes        what runs of the paper's size, of a small one and of the demo are made of
running        trains a run from its config
folder         the files of a run, how to load them, and the geometry that is kept among them
telemetry      writes the metrics of every step
evidence       collects evidence about a run's latents from data
sites          a site about one or several runs
viewing        opens a site in the browser, and explains texts
exporting      a dictionary, or its evidence, in the format of another tool
demonstration  the whole pipeline on the embedded model and text
hub            push and pull autoencoders
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
