"""Quadric: see the shape of what a language model knows, with bilinear autoencoders.

The stages, in the order in which data flows through them:

1. `quadric.activations`   a language model and text become a stream of token vectors (n, d)
2. `quadric.autoencoders`  dictionaries whose latents are quadratic forms, and linear baselines
3. `quadric.training`      fits autoencoders to any iterator of batches
4. `quadric.runs.folder`    what a run leaves on disk, and how to get it back
5. `quadric.evaluation`    how good it is, on text it was not trained on
6. `quadric.geometry`      the shape of every latent, from weights alone
7. `quadric.evidence`      what data says about every latent: points, contexts, statistics, labels
8. `quadric.site`          both, as a static site; one latent in a notebook
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadric.version import __version__

if TYPE_CHECKING:
    from quadric import geometry
    from quadric.autoencoders import BatchTopKAutoencoder, BilinearAutoencoder, LossTerms, TopKAutoencoder
    from quadric.runs.folder import load
    from quadric.runs.hub import push
    from quadric.site.notebook import show

# Resolved on first use: `quadric --help` must not wait for torch.
_HOME = {
    "BatchTopKAutoencoder": "quadric.autoencoders",
    "BilinearAutoencoder": "quadric.autoencoders",
    "LossTerms": "quadric.autoencoders",
    "TopKAutoencoder": "quadric.autoencoders",
    "Activations": "quadric.activations.sources",
    "evaluate": "quadric.evaluation.on_activations",
    "fit": "quadric.runs.fitting",
    "harvest": "quadric.activations.reading",
    "load": "quadric.runs.folder",
    "push": "quadric.runs.hub",
    "show": "quadric.site.notebook",
}
_STAGES = (
    "activations", "autoencoders", "corpus", "evaluation", "evidence", "geometry", "runs", "site", "training",
)  # fmt: skip

__all__ = [
    "BatchTopKAutoencoder",
    "BilinearAutoencoder",
    "LossTerms",
    "TopKAutoencoder",
    "__version__",
    "geometry",
    "load",
    "push",
    "show",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _STAGES:
        return import_module(f"quadric.{name}")
    raise AttributeError(f"module 'quadric' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_STAGES})
