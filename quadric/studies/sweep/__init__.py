"""Grids of autoencoders over layers, priors, alphas, seeds and baselines, with few passes of the language model.

config     configuration of a sweep, stored as sweep.json
rows       results of one finished cell, and all rows as one table
sweeping   groups of cells, trained and measured together; can be interrupted and resumed at any point

    SWEEP/sweep.json            configuration
    SWEEP/activations/PLACES/   one cache for all layers; needed until the last cell is trained
    SWEEP/runs/NUMBER/          run folders, each with the cells of one group
    SWEEP/rows/CELL.json        one finished cell
    SWEEP/results.parquet, .csv all finished cells

Activations are harvested once and read by every group. The alternative is to train all cells in one run from one live
pass. That needs no disk, but it holds all cells in memory at once and finishes either all of them or none. Several live
runs need one pass of the language model each, and on a CPU that pass costs more than training a small dictionary.
`live=True` does this where disk space is short: at the paper's size, twelve layers of 16.8 M tokens take 400 GB.
"""

from quadric.studies.sweep.config import SweepConfig
from quadric.studies.sweep.rows import read_rows
from quadric.studies.sweep.sweeping import Watcher, start_sweep, sweep

__all__ = ["SweepConfig", "Watcher", "read_rows", "start_sweep", "sweep"]
