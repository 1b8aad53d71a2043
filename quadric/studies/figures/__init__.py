"""The paper's figures. Input: run folders and sweeps. Output: a picture and its numbers as CSV.

figure_data       data that the figures are drawn from, and the lines that figures over layers and sizes have in common
style             colours, sizes, and saving of figures
drawing           draws all figures, or selected ones

errors            layers: three priors and TopK
                  widths: error over the number of latents, beside the floor
                  error_bits: error against description length
latents           captured: dimensions that a latent needs, composite against quadratic
                  random_latents: scatter plots of the first latents by index
                  ablation: increase of cross-entropy where an ablated latent fires, and elsewhere
similarity        similarity: Sim_F, Sim_H and alignment over alpha
                  stability: the same between seeds, next to chance
receptive_fields  receptive_fields: half-spaces, slabs, ellipsoid and hyperboloid in the plane
                  receptive_gap: Theorem 1 over the width d: exact ratio, the printed law, and the correct law
"""

from quadric.studies.figures.drawing import FIGURES, draw_figures
from quadric.studies.figures.figure_data import FigureData, MissingDataError, read_figure_data
from quadric.studies.figures.style import Drawn

__all__ = ["FIGURES", "Drawn", "FigureData", "MissingDataError", "draw_figures", "read_figure_data"]
