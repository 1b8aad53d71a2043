"""Known concepts in a real model: which latent captures or detects the weekdays, the months, the years …, and chance.

words     the concepts: words, and prompts that can be followed by any of them
measures  share of a concept's variance in each latent's eigenspace, and detection of its tokens, next to chance
finding   all concepts in all autoencoders of some runs
"""

from quadric.evidence.concepts.finding import Finding, Named, find_concepts
from quadric.evidence.concepts.measures import Capture, Detection
from quadric.evidence.concepts.words import CONCEPTS, Concept

__all__ = [
    "CONCEPTS",
    "Capture",
    "Concept",
    "Detection",
    "Finding",
    "Named",
    "find_concepts",
]
