"""Known concepts in a real model: which latent captures the weekdays, the months, the years …, compared with chance.

words       the concepts: words, and prompts that can be followed by any of them
reading     activations of the language model at those words
capturing   share of a concept's variance in each latent's eigenspace, next to several chance levels
finding     all concepts in all autoencoders of some runs
"""

from quadric.concepts.capturing import Capture, Directions, capture_by_directions, capture_by_forms
from quadric.concepts.finding import Finding, find_concepts
from quadric.concepts.words import CONCEPTS, Concept

__all__ = [
    "CONCEPTS",
    "Capture",
    "Concept",
    "Directions",
    "Finding",
    "capture_by_directions",
    "capture_by_forms",
    "find_concepts",
]
