"""Dictionaries of latents over token vectors: bilinear autoencoders, and linear baselines to compare them with.

settings    what each kind can be told, one dataclass per kind; no torch
terms       the loss as a list of terms
step        what a term can ask for about one batch, in plain autograd
dictionary  the one interface of every dictionary
forms       the latents as geometry sees them: quadratic forms, or directions
bilinear    the model: lens, L, R and a mixing C
mixing      the matrix C from atoms to latents: identity, dense, masked or sparse
lens        the fixed affine map before the forms
linear      TopK, BatchTopK and what other libraries train
scaling     what the encoder of a linear dictionary reads of a token
objective   unit tokens, error and density as pure functions
products    matrix products that the rest is built from
processes   sums over the processes of a job
rank_one    from the reconstruction X̂ back to a vector
storage     saving and loading
fast        what is measured to pay: the same mathematics, faster; training works without it
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.model.bilinear import BilinearAutoencoder
    from quadric.model.dictionary import Autoencoder, Dictionary
    from quadric.model.forms import Directions, Forms, forms_of
    from quadric.model.linear import (
        BatchTopKAutoencoder,
        JumpReLUAutoencoder,
        LinearAutoencoder,
        ReLUAutoencoder,
        TopKAutoencoder,
    )
    from quadric.model.objective import check_tokens, unit_tokens
    from quadric.model.provenance import Provenance
    from quadric.model.settings import (
        Atomic,
        BatchTopK,
        Composite,
        JumpReLU,
        Quadratic,
        ReLU,
        Settings,
        TopK,
        register,
    )
    from quadric.model.step import LossTerms, PlainStep, Step, values_of
    from quadric.model.storage import load_pretrained
    from quadric.model.terms import Density, Error, Mean, Overlap, SquaredError, Term, paper_loss

# Resolved on first use: `settings` and `terms` are read for every --help, which must not wait for torch.
_HOME = {
    "bilinear": ("BilinearAutoencoder",),
    "dictionary": ("Autoencoder", "Dictionary"),
    "forms": ("Directions", "Forms", "forms_of"),
    "linear": (
        "BatchTopKAutoencoder", "JumpReLUAutoencoder", "LinearAutoencoder", "ReLUAutoencoder", "TopKAutoencoder",
    ),
    "objective": ("check_tokens", "unit_tokens"),
    "provenance": ("Provenance",),
    "settings": (
        "Atomic", "BatchTopK", "Composite", "JumpReLU", "Quadratic", "ReLU", "Settings", "TopK", "register",
    ),
    "step": ("LossTerms", "PlainStep", "Step", "values_of"),
    "storage": ("load_pretrained",),
    "terms": ("Density", "Error", "Mean", "Overlap", "SquaredError", "Term", "paper_loss"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Atomic",
    "Autoencoder",
    "BatchTopK",
    "BatchTopKAutoencoder",
    "BilinearAutoencoder",
    "Composite",
    "Density",
    "Dictionary",
    "Directions",
    "Error",
    "Forms",
    "JumpReLU",
    "JumpReLUAutoencoder",
    "LinearAutoencoder",
    "LossTerms",
    "Mean",
    "Overlap",
    "PlainStep",
    "Provenance",
    "Quadratic",
    "ReLU",
    "ReLUAutoencoder",
    "Settings",
    "SquaredError",
    "Step",
    "Term",
    "TopK",
    "TopKAutoencoder",
    "check_tokens",
    "forms_of",
    "load_pretrained",
    "paper_loss",
    "register",
    "unit_tokens",
    "values_of",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"quadric.model has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"quadric.model.{_MODULE_OF[name]}"), name)
