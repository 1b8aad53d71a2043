"""The shape of every latent, from weights alone: no data, no forward pass.

Where the centre of the tokens is known, from an affine lens or by argument, shapes are those about it.

spectrum(ae, i)          eigenvalues and eigenvectors of one latent's whole form, in the lens's coordinates
statistics(ae)           the table of all latents: importance, effective rank, captured, support, shape …
dictionary_geometry(ae)  every latent decomposed once, for all of these; kept in a run by `kept_geometry`
latent_form(ae, i)       a latent as a `Form`, which can be added, subtracted, scaled and evaluated
shape_of                 which quadric a spectrum describes
read(ae, i, centre)      a latent as a quadric about the centre of the tokens: its linear part, shape and curvature
redundancy(ae)           which latents are empty, and which are copies of others
neighbours(ae)           the latents that live in nearly the same subspace
frobenius_similarity, hungarian_similarity, compare    how much two autoencoders agree
without_mean(ae)         the quadratic blocks alone: do two autoencoders agree in more than the mean token?
directions               the latents of a linear dictionary: half-spaces, with axes of their own
description_length(ae)   how many bits the latents take
"""

from quadric.geometry.centring import Centre
from quadric.geometry.comparison import Agreement, Comparison, compare
from quadric.geometry.decomposition import Decomposition, decompose, with_signs
from quadric.geometry.dictionary_geometry import DictionaryGeometry, dictionary_geometry, kept_geometry
from quadric.geometry.forms import Form, latent_form, spectrum
from quadric.geometry.neighbours import Neighbours, Redundancy, neighbours, redundancy
from quadric.geometry.quadrics import Quadric, read
from quadric.geometry.shapes import SHAPES, Shape, shape_of
from quadric.geometry.similarity import (
    HungarianSimilarity,
    frobenius_similarity,
    hungarian_similarity,
    without_mean,
)
from quadric.geometry.spectra import Eigenpairs, spectra
from quadric.geometry.statistics import DescriptionLength, LatentStatistics, description_length, statistics

__all__ = [
    "SHAPES",
    "Agreement",
    "Centre",
    "Comparison",
    "Decomposition",
    "DescriptionLength",
    "DictionaryGeometry",
    "Eigenpairs",
    "Form",
    "HungarianSimilarity",
    "LatentStatistics",
    "Neighbours",
    "Quadric",
    "Redundancy",
    "Shape",
    "compare",
    "decompose",
    "description_length",
    "dictionary_geometry",
    "frobenius_similarity",
    "hungarian_similarity",
    "kept_geometry",
    "latent_form",
    "neighbours",
    "read",
    "redundancy",
    "shape_of",
    "spectra",
    "spectrum",
    "statistics",
    "with_signs",
    "without_mean",
]
