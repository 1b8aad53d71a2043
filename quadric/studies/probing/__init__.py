"""Probing: which labels can be read from a few latents, beside linear, random and dictionary-free features.

labelled      texts or rows with labels: checks, files of a user's own, samples, splits
catalogue     the packaged sets: meaning, source, what is left out; weekdays, months, days, hours, years made here
vectors       unit activations of every token, read once, and how they are pooled
families      features of tokens: latents, their linear and quadratic parts, random, raw, PCA, degree 2
classifying   binary labels: logistic regression on the m best features
regressing    continuous and cyclic labels: ridge regression on one latent's eigenspace, and on as many other features
probing       all of it for some dictionaries and sets
results       what was measured; means over sets, paired differences, sets won and lost
report, files tables, and the folder of a probing
"""

from quadric.studies.probing.labelled import LabelledSet
from quadric.studies.probing.probing import probe
from quadric.studies.probing.results import Probing, Summary, summary_of

__all__ = ["LabelledSet", "Probing", "Summary", "probe", "summary_of"]
