"""The paper's figures, one module per figure. Input: run folders and sweeps. Output: a picture and its numbers as CSV.

figure_data  data that the figures are drawn from
style        colours, sizes, and saving of figures
series       the lines that figures over layers and sizes have in common
drawing      draws all figures, or selected ones

layers             error across layers: three priors and TopK
captured           dimensions that a latent needs: composite against quadratic
similarity         Sim_F, Sim_H and alignment over alpha
stability          the same between seeds, next to chance
receptive_fields   half-spaces, slabs, ellipsoid and hyperboloid in the plane
receptive_gap      Theorem 1 over the width d: exact ratio, the printed law, and the correct law
random_latents     scatter plots of the first latents by index
error_bits         error against description length
ablation           increase of cross-entropy where an ablated latent fires, and elsewhere
widths             error over the number of latents, beside the floor
"""

from quadric.studies.figures.drawing import FIGURES, draw_figures
from quadric.studies.figures.figure_data import FigureData, MissingDataError, read_figure_data
from quadric.studies.figures.style import Drawn

__all__ = ["FIGURES", "Drawn", "FigureData", "MissingDataError", "draw_figures", "read_figure_data"]
