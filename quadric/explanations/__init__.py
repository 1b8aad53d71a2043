"""Text in, latents out: which latents explain each token of a text, and where in it every latent fires.

reading      a text through the language model, as the dictionary's own training text was read
quantiles    where a value lies in a latent's own distribution
record       `Explanation` and its parts, and files of them
explaining   `quadric.explain`, and `Explainer`, which keeps the model for many texts
terminal     explanations as tables
"""

from quadric.explanations.explaining import Explainer, explain
from quadric.explanations.reading import Reading
from quadric.explanations.record import Explanation, Firing, TextLatent, Token, TokenLatent

__all__ = [
    "Explainer",
    "Explanation",
    "Firing",
    "Reading",
    "TextLatent",
    "Token",
    "TokenLatent",
    "explain",
]
