"""Continuous and cyclic labels: ridge regression on a few dimensions, predicted for rows that it was not fitted on.

The question is whether *one* quadratic latent holds a quantity in the r ≤ 8 dimensions of its eigenspace, and whether
that is more than the same number of other features holds:

| candidate            | dimensions                                                          | chosen from        |
|----------------------|---------------------------------------------------------------------|--------------------|
| eigenspace           | coordinates of the token in the eigenspace of one latent            | all latents        |
| random latent        | the same for a newly initialized dictionary                         | all its latents    |
| random subspace      | coordinates in a random subspace                                    | as many subspaces  |
| latents, linear part | r values of single latents                                          | all, by pursuit    |
| pca                  | r scores of principal components                                    | all, by pursuit    |
| raw                  | all dimensions of the activation: what a linear probe can know      |                    |
| shuffled             | eigenspace with the labels shuffled: what the procedure makes of nothing |               |

Choice, scaling and penalty see training rows only. A subspace is chosen by cross-validated error on training rows,
single features by orthogonal matching pursuit, which may combine any of them. A cyclic label is predicted as cosine and
sine of its angle.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.centring import CentreLike
from quadric.geometry.decomposition import centred_spectra
from quadric.model import Dictionary
from quadric.studies.probing.labelled import LabelledSet, Split, folds

Array = np.ndarray

EIGENSPACE, RANDOM_LATENT, RANDOM_SUBSPACE = "eigenspace", "random latent", "random subspace"
SHUFFLED, RAW_ALL = "shuffled labels", "raw, all dimensions"
DIMENSIONS = 8
PENALTY = 1.0
"""Of the ridge regressions that choose a subspace, on standardized coordinates."""
PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""Of the final regression, chosen on training rows."""


class Fit(NamedTuple):
    """How well a label is predicted on rows that the regression was not fitted on."""

    r2: float
    """1 − squared error / variance; 0 is as good as the mean, and less is worse than it."""
    circular: float | None
    """Circular correlation of predicted and true angle, for a cyclic label."""


class Regression(NamedTuple):
    """One candidate's predictions of all rows, each from the other folds."""

    fit: Fit
    chosen: list[list[int]]
    """Subspace, or features, that were chosen in every fold."""


def regress_subspaces(coordinates: Float[Tensor, "n k r"], labelled: LabelledSet, seed: int) -> Regression:
    """Predict every row from the best of k subspaces, which the other folds choose."""

    def choose(split: Split) -> list[int]:
        own = None if labelled.groups is None else [labelled.groups[row] for row in split.train]
        return [choose_subspace(coordinates[split.train], labelled.targets()[split.train], own, seed)]

    def features(chosen: list[int]) -> Array:
        found: Array = coordinates[:, chosen[0]].double().numpy()
        return found[:, np.abs(found).max(0) > 0]  # a latent of lower rank has fewer dimensions

    return _regress(labelled, seed, choose, features)


def regress_features(
    table: Callable[[Split], Float[Array, "n f"]], labelled: LabelledSet, seed: int, count: int | None = DIMENSIONS
) -> Regression:
    """Predict every row from single features that the other folds choose; from all of them if count is None."""
    tables: list[Array] = []

    def choose(split: Split) -> list[int]:
        tables.append(table(split))
        if count is None:
            return list(range(tables[-1].shape[1]))
        return choose_features(tables[-1][split.train], labelled.targets()[split.train], count)

    return _regress(labelled, seed, choose, lambda chosen: tables[-1][:, chosen])


def _regress(
    labelled: LabelledSet,
    seed: int,
    choose: Callable[[Split], list[int]],
    features: Callable[[list[int]], Array],
) -> Regression:
    targets, chosen = labelled.targets(), []
    predicted = np.zeros_like(targets)
    for split in folds(labelled.groups, len(labelled), seed):
        chosen.append(choose(split))
        predicted[split.test] = predictions(features(chosen[-1]), targets, split)
    return Regression(fit_of(predicted, labelled), chosen)


def shuffled(labelled: LabelledSet, seed: int) -> LabelledSet:
    """The same rows with labels that have nothing to do with them; rows of one group still share theirs."""
    generator = np.random.default_rng(seed)
    if labelled.groups is None:
        return replace(labelled, labels=generator.permutation(np.asarray(labelled.labels)).tolist())
    by_group = dict(zip(labelled.groups, labelled.labels, strict=True))
    if any(by_group[group] != label for group, label in zip(labelled.groups, labelled.labels, strict=True)):
        return replace(labelled, labels=generator.permutation(np.asarray(labelled.labels)).tolist())
    turned = dict(zip(by_group, generator.permutation(list(by_group.values())).tolist(), strict=True))
    return replace(labelled, labels=[turned[group] for group in labelled.groups])


def eigenspaces(
    autoencoder: Dictionary, centre: CentreLike | None, dimensions: int = DIMENSIONS
) -> Float[Tensor, "k d r"]:
    """The leading eigenvectors of every latent's quadratic part; zero beyond its rank."""
    found = torch.zeros(autoencoder.n_latents, autoencoder.d_model, dimensions)
    for latents, values, vectors in centred_spectra(autoencoder, centre):
        kept = vectors[..., :dimensions] * (values[:, None, :dimensions] != 0)
        found[latents.cpu(), :, : kept.shape[-1]] = kept.float().cpu()
    return found


def random_subspaces(count: int, width: int, dimensions: int, seed: int) -> Float[Tensor, "k d r"]:
    """Orthonormal bases of random subspaces."""
    generator = torch.Generator().manual_seed(seed)
    found: Tensor = torch.linalg.qr(torch.randn(count, width, min(dimensions, width), generator=generator)).Q
    return found


def choose_subspace(
    coordinates: Float[Tensor, "n k r"], targets: Float[Array, "n t"], groups: Sequence[int] | None, seed: int
) -> int:
    """The subspace whose coordinates predict the targets best, by cross-validation on the rows given."""
    errors = subspace_errors(coordinates, torch.from_numpy(targets), folds(groups, len(targets), seed))
    return int(errors.argmin())


def subspace_errors(
    coordinates: Float[Tensor, "n k r"], targets: Float[Tensor, "n t"], splits: Sequence[Split]
) -> Float[Tensor, " k"]:
    """Squared error of ridge regression on each subspace's standardized coordinates, summed over held-out rows."""
    total = torch.zeros(coordinates.shape[1], dtype=torch.float64)
    for train, test in splits:
        fitted, held_out = (coordinates[rows].double() for rows in (train, test))
        mean, spread = fitted.mean(0), fitted.std(0, correction=0)
        scale = torch.where(spread > 1e-12, spread, torch.ones_like(spread))
        fitted, held_out = ((each - mean) / scale for each in (fitted, held_out))
        level = targets[train].mean(0)
        gram = torch.einsum("nkr,nks->krs", fitted, fitted)
        penalty = PENALTY * torch.eye(gram.shape[-1], dtype=gram.dtype)
        weights = torch.linalg.solve(gram + penalty, torch.einsum("nkr,nt->krt", fitted, targets[train] - level))
        predicted = torch.einsum("nkr,krt->nkt", held_out, weights) + level
        total += (predicted - targets[test][:, None]).square().sum((0, 2))
    return total


def choose_features(features: Float[Array, "n f"], targets: Float[Array, "n t"], count: int) -> list[int]:
    """At most so many features that together predict the targets: orthogonal matching pursuit for each target."""
    from sklearn.linear_model import OrthogonalMatchingPursuit
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state

    varied = np.flatnonzero(features.std(0) > 1e-9 * np.abs(features).max(0, initial=0.0))
    scaled = StandardScaler().fit_transform(features[:, varied])
    # Copies of one feature would end the pursuit early: a little noise tells them apart.
    scaled = scaled + 1e-6 * check_random_state(0).standard_normal(scaled.shape)
    each = min(max(1, count // targets.shape[1]), scaled.shape[1])
    found: list[int] = []
    for target in targets.T:
        pursuit = OrthogonalMatchingPursuit(n_nonzero_coefs=each).fit(scaled, target)
        found += varied[np.flatnonzero(pursuit.coef_)].tolist()
    return sorted(set(found))


def predictions(features: Float[Array, "n f"], targets: Float[Array, "n t"], split: Split) -> Float[Array, "m t"]:
    """What ridge regression on standardized features predicts for the test rows, within the range of the training rows.

    Without that range, a single row far outside the training rows would decide R².
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    found: Any = probe.fit(features[split.train], targets[split.train]).predict(features[split.test])
    training = targets[split.train]
    return np.clip(np.reshape(found, (len(split.test), -1)), training.min(0), training.max(0))


def fit_of(predicted: Float[Array, "n t"], labelled: LabelledSet) -> Fit:
    """Score predictions of all rows."""
    from sklearn.metrics import r2_score

    targets = labelled.targets()
    r2 = float(r2_score(targets, predicted, multioutput="variance_weighted"))
    if labelled.period is None:
        return Fit(r2, None)
    angles = (np.arctan2(each[:, 1], each[:, 0]) for each in (targets, predicted))
    return Fit(r2, circular_correlation(*angles))


def circular_correlation(a: Float[Array, " n"], b: Float[Array, " n"]) -> float:
    """Fisher and Lee's correlation of two angles.

    Σ_{i<j} sin(a_i − a_j) sin(b_i − b_j) / √(Σ sin²(a_i − a_j) · Σ sin²(b_i − b_j)): 1 if one is the other turned, −1
    if it is its mirror image, 0 if they are unrelated. It needs no mean direction, which a uniform angle lacks.
    """
    sines = [np.sin(each[:, None] - each[None, :]) for each in (a, b)]
    scale = np.sqrt((sines[0] ** 2).sum() * (sines[1] ** 2).sum())
    return float((sines[0] * sines[1]).sum() / scale) if scale > 0 else 0.0
