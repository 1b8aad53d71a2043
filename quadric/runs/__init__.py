"""What a run is, and how it goes from a config to a folder.

config         what is asked for, stored as run.json
recipes        whole configs: the paper's, a small one, the demo's
running        trains a run from its config
folder         what a run leaves on disk, and how to load it
telemetry      where the measurements of every step go
geometry       the shape of the latents, computed once and kept in the run
evidence       collects what data says about a run's latents
sites          a site about one or several runs
demonstration  all of it on the embedded model and text
hub            push and pull autoencoders
"""
