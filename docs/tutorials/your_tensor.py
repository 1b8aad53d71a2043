# %% [markdown]
# # Your own tensor
#
# Quadric needs no language model. `quadric.fit` takes any tensor with one row per observation: image embeddings, neural
# recordings, activations that you harvested with your own code. This tutorial plants ten circles in a tensor, checks whether
# the dictionary finds them, and checks that it finds none where there are none.

# %% [markdown]
# ## A tensor with a known answer
#
# 12,000 rows in 32 dimensions. Each row lies on one of ten circles, each in a plane of its own, with noise and a large common
# offset (activations have one too).

# %%
import torch

import quadric


def rows_on_circles(n: int, per_row: int = 1, n_circles: int = 10, d: int = 32) -> tuple[torch.Tensor, ...]:
    """Rows (n, d), the planes (n_circles, 2, d), and for every row its angle on each circle and which circles it has."""
    generator = torch.Generator().manual_seed(0)
    planes = torch.linalg.qr(torch.randn(d, d, generator=generator))[0][:, : 2 * n_circles].T.reshape(n_circles, 2, d)
    angles = 2 * torch.pi * torch.rand(n, n_circles, generator=generator)
    chosen = torch.rand(n, n_circles, generator=generator).argsort(1) < per_row
    points = torch.stack([angles.cos(), angles.sin()], dim=-1) * chosen[..., None]
    offset = 3 * torch.nn.functional.normalize(torch.randn(d, generator=generator), dim=0)
    noise = 0.1 * torch.randn(n, d, generator=generator)
    return torch.einsum("ncp,cpd->nd", points, planes) + noise + offset, planes, angles, chosen


x, planes, angles, chosen = rows_on_circles(12_000)
train, held_out = x[:11_000], x[11_000:]

# %% [markdown]
# ## Fit and measure
#
# `fit` scales rows to unit norm and takes out their mean through an affine *lens* ([why](../centre.md)). The loss is a list of terms:
# `Error(top=6)` reconstructs each row from its 6 strongest latents, where the default would be a tenth of them, 4. `evaluate`
# reports on rows that were not trained on.

# %%
from quadric.model import Density, Error, Overlap

kind, loss = quadric.Composite(n_latents=40), [Error(top=6), Density(0.05), Overlap(0.01)]
settings = {"steps": 400, "batch_tokens": 1024, "seed": 0, "progress": False}
ae = quadric.fit(train, kind, loss=loss, **settings)
print(quadric.evaluate(ae, held_out))

# %% [markdown]
# ## Are the circles there?
#
# Read from the weights alone: which share of a latent's two leading axes lies in a planted plane? 1 means that the latent lives
# exactly there; a latent with one axis in the plane, a mere direction, has ½. For every circle we take the best of 40 latents,
# so chance is not 0: the comparison is a dictionary trained on *Gaussian rows with the same mean and covariance*.


# %%
def overlaps(dictionary: quadric.BilinearAutoencoder, planes: torch.Tensor) -> torch.Tensor:
    """Share of the two leading axes of every latent in every plane, (circles, latents)."""
    axes = [quadric.geometry.read(dictionary, latent).axes[:, :2].float() for latent in range(dictionary.n_latents)]
    return torch.stack([torch.stack([(plane @ each).square().sum() / 2 for each in axes]) for plane in planes])


generator = torch.Generator().manual_seed(1)
noise = torch.randn(len(x), x.shape[1], generator=generator)
gaussian = x.mean(0) + noise @ torch.linalg.cholesky(torch.cov(x.T)).T
null = quadric.fit(gaussian[:11_000], kind, loss=loss, **settings)
for name, dictionary in (("circles", ae), ("Gaussian rows", null)):
    best = overlaps(dictionary, planes).max(dim=1).values
    print(f"{name:14} {' '.join(f'{value:.2f}' for value in best.tolist())}   mean {best.mean():.2f}")

# %% [markdown]
# All ten are found, and none in the Gaussian rows, although these have the same variance in the same twenty dimensions.
#
# ## Look at one
#
# Evidence is what data says about the latents. A tensor has no words, so give every row a string; latents are named by them.

# %%
compass = ["east", "north", "west", "south"]
circle_of = chosen.int().argmax(1)
angle = angles[torch.arange(len(x)), circle_of]
names = [
    f"{circle}{compass[int(each)]}"
    for circle, each in zip(circle_of, (angle / (torch.pi / 2)).round() % 4, strict=True)
]
evidence = quadric.collect_evidence(ae, x, texts=names, points=1500, progress=False)
table = quadric.latents(ae, evidence).to_pandas()
finders = overlaps(ae, planes).argmax(dim=1).tolist()
columns = ["shape", "positive", "negative", "curvature", "measured_curvature", "effective_rank", "density", "label"]
print(table.loc[finders, columns].round(2).to_string())

# %% [markdown]
# Curvature is near 1: no linear function predicts these latents. But the shape is not the ellipse that you may have expected. One
# eigenvalue is positive and one negative, so z is large east and west and negative north and south, like cos 2θ. Both are
# right: a point on a circle needs three quadratic functions, x² + y² (which is constant on it), x² − y² and xy, and the
# dictionary chose one of the latter two. The *plane* is what was found, and the shape inside it is a choice of coordinates.

# %%
import matplotlib.pyplot as plt
import numpy as np

first, points = finders[0], evidence.points
limit = np.abs(points.values[first]).max()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axes, where, name in (
    (left, points.coordinates[first], "on its own axes"),
    (right, points.control[first], "the same rows on random axes"),
):
    colours = {"c": points.values[first], "cmap": "coolwarm", "vmin": -limit, "vmax": limit}
    dots = axes.scatter(where[:, 0], where[:, 1], s=6, **colours)
    axes.set(title=name, aspect="equal")
figure.colorbar(dots, ax=right, label="z")
figure.suptitle(f"Latent {first}: the first planted circle")

# %% [markdown]
# ## Where it gets hard
#
# Put two circles into every row instead of one.

# %%
both, planes_of_both, *_ = rows_on_circles(12_000, per_row=2)
harder = quadric.fit(both[:11_000], kind, loss=loss, **settings)
best = overlaps(harder, planes_of_both).max(dim=1).values
print(f"two circles per row: {' '.join(f'{value:.2f}' for value in best.tolist())}   mean {best.mean():.2f}")

# %% [markdown]
# Now only some circles are found whole. The others are split: ½ means that the best latent is a direction in the plane. Real
# activations have many things at once, so expect split manifolds there, and see the
# [table of planted manifolds](../results/planted.md) for spheres, cones and clusters, which are harder still.
#
# ## A linear dictionary on the same rows
#
# `quadric.TopK` is a linear baseline. Its error is measured in the same space, so the numbers compare.

# %%
linear = quadric.fit(train, quadric.TopK(n_latents=40, n_active=6), **settings)
for name, dictionary in (("forms", ae), ("directions", linear)):
    report = quadric.evaluate(dictionary, held_out)
    print(f"{name:11} error {report.error:.3f}; quadratic part {report.error_quadratic:.3f}; floor {report.floor:.3f}")

# %% [markdown]
# The linear dictionary reconstructs more of the whole, and the forms more of the curved part. Both are far from the floor, which a
# dictionary of 40 forms could reach if it did not have to be sparse.
#
# ## Keep it
#
# `fit(..., out="runs/circles")` leaves a run folder that every command reads; `ae.save_pretrained("folder")` saves the weights
# alone, and `quadric.load` reads them back. `quadric.view(ae, evidence)` opens all latents in the browser.
