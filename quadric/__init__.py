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

from quadric._io import attach
from quadric.version import __version__ as __version__

__getattr__, __dir__, __all__ = attach(__name__, __file__)
