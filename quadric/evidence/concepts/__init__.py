"""Known concepts in a real model: which latent captures or detects the weekdays, the months, the years …, and chance.

words       the concepts: words, and prompts that can be followed by any of them
reading     activations of the language model at those words, and at corpus tokens
capturing   share of a concept's variance in each latent's eigenspace, next to several chance levels
detecting   average precision of one latent at telling the concept's tokens from corpus tokens
finding     all concepts in all autoencoders of some runs
"""

from quadric.evidence.concepts.capturing import Capture
from quadric.evidence.concepts.detecting import Detection
from quadric.evidence.concepts.finding import Finding, Named, find_concepts
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
