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

    quadric.corpus        text becomes blocks of tokens in a fixed order
    quadric.activations   a language model and tokens become a stream of token vectors (n, d)
    quadric.autoencoders  dictionaries whose latents are quadratic forms, and linear baselines
    quadric.training      fits autoencoders to any stream of batches
    quadric.runs          what a run is: its config, its folder, and how it continues
    quadric.evaluation    how good a dictionary is, on text it was not trained on
    quadric.geometry      the shape of every latent, from weights alone
    quadric.evidence      what data says about every latent: points, contexts, statistics, labels
    quadric.explanations  which latents explain each token of a text, and where in it every latent fires
    quadric.interventions activations moved along a latent's level sets, also inside the language model
    quadric.steering      what interventions do to predictions, what they cost, and what controls do
    quadric.probing       which labels a few latents hold, beside linear, random and dictionary-free features
    quadric.site          both as a static site, and one latent in a notebook
    quadric.interop       dictionaries of other libraries, read as ours, and ours written as theirs
    quadric.live          the site with the language model behind it
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadric.version import __version__

if TYPE_CHECKING:
    from quadric import geometry
    from quadric.activations.reading import harvest
    from quadric.activations.sources import Activations
    from quadric.autoencoders import BatchTopKAutoencoder, BilinearAutoencoder, LossTerms, TopKAutoencoder
    from quadric.evaluation.on_activations import evaluate
    from quadric.evidence import Evidence, collect_evidence
    from quadric.explanations import explain
    from quadric.interop.reading import linear_dictionary
    from quadric.interventions.in_model import intervene
    from quadric.latent_table import latents
    from quadric.probing.probing import probe
    from quadric.runs.exporting import export
    from quadric.runs.fitting import fit
    from quadric.runs.folder import load
    from quadric.runs.hub import push
    from quadric.runs.sites import export_site
    from quadric.runs.viewing import view
    from quadric.site.notebook import show
    from quadric.steering.curve import steering_curve

# Resolved on first use: `quadric --help` must not wait for torch.
_HOME = {
    "Activations": "quadric.activations.sources",
    "BatchTopKAutoencoder": "quadric.autoencoders",
    "BilinearAutoencoder": "quadric.autoencoders",
    "Evidence": "quadric.evidence",
    "LossTerms": "quadric.autoencoders",
    "TopKAutoencoder": "quadric.autoencoders",
    "collect_evidence": "quadric.evidence.on_activations",
    "evaluate": "quadric.evaluation.on_activations",
    "explain": "quadric.explanations.explaining",
    "export": "quadric.runs.exporting",
    "export_site": "quadric.runs.sites",
    "fit": "quadric.runs.fitting",
    "harvest": "quadric.activations.reading",
    "intervene": "quadric.interventions.in_model",
    "latents": "quadric.latent_table",
    "linear_dictionary": "quadric.interop.reading",
    "load": "quadric.runs.folder",
    "probe": "quadric.probing.probing",
    "push": "quadric.runs.hub",
    "show": "quadric.site.notebook",
    "steering_curve": "quadric.steering.curve",
    "view": "quadric.runs.viewing",
}
_ROOMS = (
    "activations", "autoencoders", "corpus", "evaluation", "evidence", "explanations", "geometry",
    "interop", "interventions", "live", "probing", "runs", "site", "steering", "training",
)  # fmt: skip

__all__ = [
    "Activations",
    "BatchTopKAutoencoder",
    "BilinearAutoencoder",
    "Evidence",
    "LossTerms",
    "TopKAutoencoder",
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
    "probe",
    "push",
    "show",
    "steering_curve",
    "view",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"quadric.{name}")
    raise AttributeError(f"module 'quadric' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
