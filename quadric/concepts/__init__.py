"""Known concepts in a real model: which latent holds the weekdays, the months, the years …, and better than chance?

words       the concepts: words, and the beginnings of sentences that end in them
reading     the language model's vectors at those words
capturing   how much of a concept's variance lies in each latent's eigenspace, beside every chance level
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
