# %% [markdown]
# # Reading a latent
#
# A latent of Quadric is a quadratic function of a token: z = vᵀQv + c·bᵀv + c²a, with v the unit token minus the mean. This tutorial
# reads three latents of the demo, in four steps: shape, curvature, controls, use. It ends with a list of reasons not to believe
# what you see. It needs the run of [the first tutorial](first_manifold.md).

# %%
from pathlib import Path

import numpy as np

import quadric

ae = quadric.load("runs/demo")
(folder,) = Path("runs/demo/evidence").iterdir()
evidence = quadric.Evidence.load(folder)
table = quadric.latents(ae, evidence).to_pandas()
table["detection"] = [score.detection for score in evidence.labels.scores]

# %% [markdown]
# We compare three latents that are picked by rules, not by looks: the one whose variance is least linear among those with
# detection above 0.8 (*curved*), the most linear one (*linear*), and the densest one (*dense*).

# %%
curved = int(table[table.detection > 0.8].measured_curvature.idxmax())
linear = int(table.measured_curvature.idxmin())
dense = int(table.density.idxmax())
three = {"curved": curved, "linear": linear, "dense": dense}
columns = ["label", "shape", "effective_rank", "captured", "density", "firing_share", "detection"]
print(table.loc[list(three.values()), columns].round(2).to_string())

# %% [markdown]
# ## 1. Shape, from the weights
#
# `geometry.read` describes the level sets about the mean of the tokens. Most latents of a real model are hyperboloids: some
# directions push z up, others push it down. That alone means little, since a random form is a hyperboloid too. `captured`
# (share of Σ|λ| in three eigenvalues) and `effective_rank` say whether three dimensions are enough to look at.

# %%
for name, latent in three.items():
    found = quadric.geometry.read(ae, latent)
    eigenvalues = ", ".join(f"{value:+.2f}" for value in quadric.geometry.spectrum(ae, latent).eigenvalues[:5].tolist())
    print(f"{name:7} {found}\n        eigenvalues of the whole form: {eigenvalues}")

# %% [markdown]
# ## 2. Curvature: would a straight line do?
#
# This is the number to look at first. `curvature` is computed from the weights and the covariance of the tokens, as if tokens were
# Gaussian. `measured_curvature` is from data: 1 − R² of the best linear function. If it is near 0, the latent behaves like a
# direction, whatever its shape is called.

# %%
print(table.loc[list(three.values()), ["curvature", "measured_curvature"]].round(2).to_string())
print(table[["curvature", "measured_curvature"]].describe().loc[["25%", "50%", "75%"]].round(2).to_string())

# %% [markdown]
# In this dictionary the median latent has a measured curvature of 0.29, about half of what the weights predict for Gaussian
# tokens: seven tenths of a typical latent's variance are linear.
#
# ## 3. Controls: points on other axes
#
# Evidence keeps two controls for every point. `linear` is the token on the latent's best linear predictor. `control` is the token on
# random axes that all latents share. Draw z against each.

# %%
import matplotlib.pyplot as plt

figure, rows = plt.subplots(3, 3, figsize=(9.5, 9), layout="constrained")
points = evidence.points
for axes, (name, latent) in zip(rows, three.items(), strict=True):
    z = points.values[latent]
    limit = np.abs(z).max()
    colours = {"c": z, "cmap": "coolwarm", "vmin": -limit, "vmax": limit, "s": 5}
    axes[0].scatter(points.coordinates[latent][:, 0], points.coordinates[latent][:, 1], **colours)
    axes[0].set_ylabel(f"{name}: latent {latent}")
    axes[1].scatter(points.linear[latent], z, s=5, color="grey")
    axes[2].scatter(points.control[latent][:, 0], points.control[latent][:, 1], **colours)
rows[0][0].set_title("its own first two axes")
rows[0][1].set_title("z against its best linear predictor")
rows[0][2].set_title("random axes")

# %% [markdown]
# In the middle column, the linear latent is a line, although the weights call it a slab: its tokens all lie on one side of the
# slab's middle. The curved one bends. In the right column colours should be mixed; where they are not, as in the second row,
# even random axes show some of what the latent separates.
#
# ## 4. Does the model use it?
#
# Shapes and contexts are correlations. An ablation is not: remove what a token has in the latent's own space and see what the
# model predicts. `quadric ablate` does this for many latents, beside two controls at the same tokens. Here are the six sparsest.

# %%
from quadric.studies.steering import ablate_run

harms = ablate_run("runs/demo", latents=6, sequences=2, texts=40)
print("extra nats per token        where it fires   elsewhere   other latent   same form, turned")
for row in harms:
    values = (row.own.fires, row.own.elsewhere, row.other.fires, row.turned.fires)
    print(f"{row.latent:4} {row.label[:22]:24}" + "".join(f"{value:13.2f}" for value in values))

# %% [markdown]
# On 50 latents, [ablation](../steering.md#measured-here) costs 4.3 nats where the latent fires, 0.7 elsewhere, and 0.04 for the same
# form turned at random. So these latents sit where the model reads. It does not follow that the model reads their *curvature*.
# In three of the six rows above, ablating another latent costs about as much or more: look at the controls of the latent that you
# write about, not at averages.
#
# ## When not to believe it
#
# | you see | ask | where |
# |---|---|---|
# | a hyperboloid | would a random form be one? Most are. | `captured`, `effective_rank` |
# | a curved picture | is the measured curvature above 0.2, say? | `measured_curvature` |
# | clear clusters | does a structureless control have them too? | clusters in the [viewer](../viewer.md) say so |
# | a good label | is detection above 0.7? Labels of another latent have 0.5. | `evidence.labels.scores` |
# | a latent for a concept | does a TopK latent detect it as well? On our six concepts, about as well. | `quadric concepts` |
# | a probe that works | do as many raw coordinates work as well? Here they do, or better. | `quadric probe` |
# | a low error | is it low in the *quadratic* block? | `error_quadratic` |
# | the same latent twice | is it a copy? | `copy_of` |
# | a result with one seed | does it hold for another? | `quadric compare` |
#
# One of these went against us. With few features, latents of the demo predict labels better than TopK latents, but their *linear
# part alone* does as well, and raw activations do better ([Probing](../probing.md)). Curvature is there; on these tasks
# it adds nothing.
