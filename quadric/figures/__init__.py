"""The paper's figures, one module each, from run folders and sweeps alone: a picture and the numbers behind it.

material    what the folders given hold
style       colours, sizes, and how a figure is saved
drawing     all figures, or the ones asked for

layers             error across layers: three priors and TopK
captured           how many dimensions latents take: composite against quadratic
similarity         Sim_F, Sim_H and alignment over alpha
stability          the same between seeds, beside chance
receptive_fields   half-spaces, slabs, ellipsoid and hyperboloid in the plane
receptive_gap      Theorem 1 over the width d: exact, the printed law, and the law that holds
random_latents     the first latents by index as scatters
error_bits         error against description length
"""

from quadric.figures.drawing import FIGURES, FigureName, draw_figures
from quadric.figures.material import Material, MissingDataError, material_from
from quadric.figures.style import Drawn

__all__ = ["FIGURES", "Drawn", "FigureName", "Material", "MissingDataError", "draw_figures", "material_from"]
