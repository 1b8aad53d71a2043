# %% [markdown]
# # Your own model and text
#
# `quadric.harvest` reads activations of any causal language model of `transformers`: one in memory, a hub id, a folder or a
# GGUF file. The text is a list of strings, files, or a dataset. This tutorial reads Python source code with the embedded
# model, because a machine with Quadric has both, and trains a dictionary on it.

# %% [markdown]
# ## A model in memory and a list of strings
#
# Use your own two lines here, for example
# `AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")` and `AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")`.

# %%
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import quadric
from quadric.data import find_model

folder = find_model("smollm2").location  # any folder that save_pretrained wrote
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)

library = Path(__import__("json").__file__).parents[1]  # the standard library of this Python
files = sorted(library.glob("*.py"))[:20]
texts = [path.read_text(encoding="utf-8")[:4000] for path in files]
print(f"{len(texts)} files, {sum(map(len, texts)):,} characters")

# %% [markdown]
# ## Activations
#
# `layer=6` is the residual stream *into* layer 6; the forward pass stops there. Special tokens and attention sinks are left
# out, since their vectors are many times longer than others. Sixteen files are for training and four for measuring: never
# measure on text that you trained on. This is far too little text for a result; it makes the page run in a minute.

# %%
acts = quadric.harvest(model, texts[:16], layer=6, tokenizer=tokenizer, progress=False)
other = quadric.harvest(model, texts[16:], layer=6, tokenizer=tokenizer, progress=False)
for name, each in (("to train on", acts), ("to measure on", other)):
    print(f"{len(each):,} activations of width {each.d_model} at {each.hook_points[0]} {name}")

# %% [markdown]
# `harvest(…, out="activations")` stores them in a folder instead, resumes if it is interrupted, and is the way for anything that
# does not fit into memory. From the shell: `quadric harvest --model MODEL --corpus 'texts/*.txt' --layers 6 --tokens 2000000 --out
# activations`. [Activations](../activations.md) has all hook points and token rules.
#
# ## Train and measure
#
# A linear TopK dictionary of the same size is one argument away. Train it too, or you will not know what your numbers mean.

# %%
sizes = {"n_latents": 128, "steps": 150, "batch_tokens": 1024, "seed": 0, "progress": False}
ae = quadric.fit(acts, **sizes)
topk = quadric.fit(acts, prior="topk", **sizes)
print(quadric.evaluate(ae, other))
print()
print(quadric.evaluate(topk, other))

# %% [markdown]
# Compare `error` with `floor`, not with 0, and the quadratic part with that of TopK. Here, as on prose with
# more text ([measured](../concepts.md#what-good-numbers-look-like)), TopK reconstructs better. What the forms offer is not a lower
# error but shapes that can be read.
#
# ## What the latents are about
#
# Evidence shows activations to every latent, keeps points and contexts, and names each latent by the tokens that carry its
# energy. Labels are made from four fifths of the documents and scored on the rest: *detection* is the balanced accuracy of
# telling where the latent fires, and 0.5 is chance.

# %%
evidence = quadric.collect_evidence(ae, acts, points=300, progress=False)
table = quadric.latents(ae, evidence).to_pandas()
scores = evidence.labels.scores or [None] * len(table)
table["detection"] = [score.detection if score else float("nan") for score in scores]
columns = ["shape", "measured_curvature", "density", "firing_share", "label", "detection"]
print(table.sort_values("density")[columns].head(12).round(2).to_string())

# %% [markdown]
# Look at the second column before you look at the first. Most of these latents are sparse and well named, but hardly curved: a
# direction would do. Where fewer than ten held-out tokens fire a latent, there is no detection.
#
# ## Ask about a text
#
# `explain` shows the strongest latents of every token of a text that the dictionary has not seen.

# %%
print(quadric.explain(ae, "def add(a, b):\n    return a + b", evidence, model=model, tokenizer=tokenizer))

# %% [markdown]
# ## See all of it
#
# `quadric.view(ae, evidence)` opens the latents in the browser. `quadric.export_site(ae, evidence, "site")` writes them as files that
# any web server can host ([how](../how-to/hosting.md)).
