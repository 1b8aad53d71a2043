"""Grids of autoencoders over layers, priors, alphas, seeds and baselines, from as few passes of the model as possible.

config     what a sweep is asked to do, stored as sweep.json
groups     which cells are trained together, as ordinary run folders
rows       what is known of a finished cell
results    all rows as one table
sweeping   the whole, resumable at any point

    SWEEP/sweep.json            what was asked for
    SWEEP/activations/PLACES/   one cache for all layers; needed until the last cell is trained
    SWEEP/runs/NUMBER/          run folders, each with the cells of one group
    SWEEP/rows/CELL.json        one finished cell
    SWEEP/results.parquet, .csv all of them

Activations are harvested once and read by every group. The other way, all cells in one run from one live pass, needs
no disk but all cells in memory at once, and finishes all of them or none; several live runs cost one pass of the
language model each, and on a CPU that pass is dearer than a small dictionary. `live=True` does that where the disk is
too small: at the paper's size twelve layers of 16.8 M tokens take 400 GB.
"""

from quadric.sweep.config import SweepConfig, read_sweep_config
from quadric.sweep.results import read_rows
from quadric.sweep.sweeping import Watcher, start_sweep, sweep

__all__ = ["SweepConfig", "Watcher", "read_rows", "read_sweep_config", "start_sweep", "sweep"]
