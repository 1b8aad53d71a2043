"""Quadric: see the shape of what a language model knows, with bilinear autoencoders.

The front door, in the order in which one uses it:

    acts = quadric.harvest(model, texts, layer=15)     activations of a language model on some text
    ae = quadric.fit(acts, n_latents=512)              a dictionary whose latents are quadratic forms
    ae = quadric.load("folder")                        or one that was saved, here or by SAELens or sparsify
    ae = quadric.linear_dictionary(encoder=..., decoder=...)   or the tensors of any other linear dictionary
    print(quadric.evaluate(ae, other_acts))            how good it is on activations it has not seen
    quadric.latents(ae).to_pandas()                    the shape of every latent, from weights alone
    evidence = quadric.collect_evidence(ae, acts)      what data says about every latent
    quadric.show(ae, 12, evidence)                     one latent in a notebook
    quadric.export_site(ae, evidence, "site")          all of them as a static site
    quadric.view(ae, evidence)                         the same in the browser
    quadric.explain(ae, "Some words", evidence)        the strongest latents of every token of a text
    with quadric.intervene(model, ae.latent(12).project(to=0.5)): ...   the model with one latent moved
    quadric.export(ae, to="saelens", out="exported")   the dictionary in the format of another tool
    quadric.push(ae, "owner/name")                     the dictionary on the Hugging Face hub
    quadric.steering_curve(model, ae.latent(12), evidence, prompts, ...)  what that does, what it costs, and controls
    quadric.probe({"ours": ae, "topk": other})         which labels a few latents hold, and what linear features hold

The rooms behind it, in the order in which data flows through them:

    quadric.data          text becomes blocks of tokens, and with a language model a stream of token vectors (n, d)
    quadric.model         dictionaries whose latents are quadratic forms, and linear baselines
    quadric.train         fits dictionaries to any stream of batches
    quadric.run           what a run is: its config, its folder, and how it continues
    quadric.evaluation    how good a dictionary is, on text it was not trained on
    quadric.geometry      the shape of every latent, from weights alone
    quadric.evidence      what data says about every latent: points, contexts, statistics, labels
    quadric.explanations  which latents explain each token of a text, and where in it every latent fires
    quadric.interventions activations moved along a latent's level sets, also inside the language model
    quadric.viewer        all of it as a static or a live site, and one latent in a notebook
    quadric.interop       dictionaries of other libraries, read as ours, and ours written as theirs
    quadric.studies       what measures: probing, steering curves, sweeps, figures, reports
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadric.version import __version__

if TYPE_CHECKING:
    from quadric import geometry
    from quadric.data.reading import harvest
    from quadric.data.sources import Activations
    from quadric.evaluation.on_activations import evaluate
    from quadric.evidence import Evidence, collect_evidence
    from quadric.evidence.table import latents
    from quadric.explanations import explain
    from quadric.interop.reading import linear_dictionary
    from quadric.interventions.in_model import intervene
    from quadric.model import (
        Atomic,
        BatchTopK,
        BatchTopKAutoencoder,
        BilinearAutoencoder,
        Composite,
        Dictionary,
        LossTerms,
        Quadratic,
        Settings,
        Term,
        TopK,
        TopKAutoencoder,
        paper_loss,
        register,
    )
    from quadric.run import recipes
    from quadric.run.exporting import export
    from quadric.run.fitting import fit
    from quadric.run.folder import load
    from quadric.run.hub import push
    from quadric.run.sites import export_site
    from quadric.run.viewing import view
    from quadric.studies.probing.probing import probe
    from quadric.studies.steering.curve import steering_curve
    from quadric.train import Training
    from quadric.viewer.notebook import show

# Resolved on first use: `quadric --help` must not wait for torch.
_HOME = {
    "Activations": "quadric.data.sources",
    "Atomic": "quadric.model",
    "BatchTopK": "quadric.model",
    "BatchTopKAutoencoder": "quadric.model",
    "BilinearAutoencoder": "quadric.model",
    "Composite": "quadric.model",
    "Dictionary": "quadric.model",
    "Evidence": "quadric.evidence",
    "LossTerms": "quadric.model",
    "Quadratic": "quadric.model",
    "Settings": "quadric.model",
    "Term": "quadric.model",
    "TopK": "quadric.model",
    "Training": "quadric.train",
    "paper_loss": "quadric.model",
    "register": "quadric.model",
    "TopKAutoencoder": "quadric.model",
    "collect_evidence": "quadric.evidence.on_activations",
    "evaluate": "quadric.evaluation.on_activations",
    "explain": "quadric.explanations.explaining",
    "export": "quadric.run.exporting",
    "export_site": "quadric.run.sites",
    "fit": "quadric.run.fitting",
    "harvest": "quadric.data.reading",
    "intervene": "quadric.interventions.in_model",
    "latents": "quadric.evidence.table",
    "linear_dictionary": "quadric.interop.reading",
    "load": "quadric.run.folder",
    "probe": "quadric.studies.probing.probing",
    "push": "quadric.run.hub",
    "show": "quadric.viewer.notebook",
    "steering_curve": "quadric.studies.steering.curve",
    "view": "quadric.run.viewing",
}
_ROOMS = (
    "data", "evaluation", "evidence", "explanations", "geometry", "interop", "interventions", "model", "run", "studies",
    "train", "viewer",
)  # fmt: skip

__all__ = [
    "Activations",
    "Atomic",
    "BatchTopK",
    "BatchTopKAutoencoder",
    "BilinearAutoencoder",
    "Composite",
    "Dictionary",
    "Evidence",
    "LossTerms",
    "Quadratic",
    "Settings",
    "Term",
    "TopK",
    "TopKAutoencoder",
    "Training",
    "__version__",
    "collect_evidence",
    "evaluate",
    "explain",
    "export",
    "export_site",
    "fit",
    "geometry",
    "harvest",
    "intervene",
    "latents",
    "linear_dictionary",
    "load",
    "paper_loss",
    "probe",
    "push",
    "recipes",
    "register",
    "show",
    "steering_curve",
    "view",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name == "recipes":
        return import_module("quadric.run.recipes")
    if name in _ROOMS:
        return import_module(f"quadric.{name}")
    raise AttributeError(f"module 'quadric' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
