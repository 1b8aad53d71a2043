"""Probing: which labels can be read from a few latents, beside linear, random and dictionary-free features."""

from quadric.probing.labelled import LabelledSet
from quadric.probing.probing import probe
from quadric.probing.record import Probing
from quadric.probing.summary import Summary, summary_of

__all__ = ["LabelledSet", "Probing", "Summary", "probe", "summary_of"]
