"""Regressions of continuous and cyclic labels: against scikit-learn row by row, on planted circles, and on nothing."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadric import BilinearAutoencoder
from quadric.geometry import spectrum
from quadric.studies.probing.labelled import LabelledSet, folds
from quadric.studies.probing.regressing import (
    PENALTY,
    choose_features,
    circular_correlation,
    eigenspaces,
    random_subspaces,
    regress_features,
    regress_subspaces,
    shuffled,
    subspace_errors,
)


def cycle(n: int = 90, groups: int | None = None) -> LabelledSet:
    labels = [float(row % 9) for row in range(n)]
    own = None if groups is None else [int(label) for label in labels]
    vectors = torch.zeros(n, 2)
    return LabelledSet(name="cycle", kind="cyclic", period=9.0, labels=labels, vectors=vectors, groups=own)


def planted(labelled: LabelledSet, k: int = 20, r: int = 4, at: int = 13) -> torch.Tensor:
    """Coordinates in k subspaces, of which one holds the circle."""
    coordinates = torch.randn(len(labelled), k, r, generator=torch.Generator().manual_seed(0)).double()
    coordinates[:, at, :2] = torch.from_numpy(labelled.targets()) + 0.1 * coordinates[:, at, 2:]
    return coordinates


def test_errors_of_all_subspaces_are_those_of_scikit_learn() -> None:
    labelled = cycle()
    coordinates, targets = planted(labelled, k=5, at=1), labelled.targets()
    coordinates[:, 2, 3] = 0  # a dimension that a latent of lower rank lacks
    splits = folds(None, len(labelled), 0)
    expected = []
    for latent in range(5):
        features, error = coordinates[:, latent].numpy(), 0.0
        for train, test in splits:
            probe = make_pipeline(StandardScaler(), Ridge(alpha=PENALTY)).fit(features[train], targets[train])
            error += float(((probe.predict(features[test]) - targets[test]) ** 2).sum())
        expected.append(error)
    found = subspace_errors(coordinates, torch.from_numpy(targets), splits)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("groups", [None, 9])
def test_the_subspace_with_the_circle_is_found_and_places_words_it_has_not_seen(groups: int | None) -> None:
    labelled = cycle(groups=groups)
    found = regress_subspaces(planted(labelled), labelled, 0)
    assert found.chosen == [[13]] * len(found.chosen)
    assert found.fit.r2 > 0.8
    assert found.fit.circular is not None
    assert found.fit.circular > 0.9


def test_shuffled_labels_are_not_predicted() -> None:
    labelled = cycle(180)
    scores = [regress_subspaces(planted(labelled), shuffled(labelled, seed), seed).fit.r2 for seed in range(4)]
    assert max(scores) < 0.15


def test_shuffling_keeps_labels_and_groups_together() -> None:
    labelled = cycle(groups=9)
    found = shuffled(labelled, 1)
    assert sorted(found.labels) == sorted(labelled.labels)
    assert found.labels != labelled.labels
    assert len({(group, label) for group, label in zip(found.groups or (), found.labels, strict=True)}) == 9
    mixed = LabelledSet(
        name="m", kind="continuous", vectors=torch.zeros(6, 1), labels=list(range(6)), groups=[0, 0, 1, 1, 2, 2]
    )
    assert sorted(shuffled(mixed, 0).labels) == list(range(6))


def test_single_features_are_chosen_together_and_copies_do_no_harm() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(80, 30))
    features[:, 7] = features[:, 3]
    features[:, 11] = 5.0
    target = features[:, [3]] - 2 * features[:, [20]]
    chosen = choose_features(features, target, 2)
    assert 20 in chosen
    assert {3, 7} & set(chosen)
    assert 11 not in choose_features(features, target, 8)
    assert len(choose_features(features, np.concatenate([target, features[:, [5]]], axis=1), 8)) <= 8


def test_a_line_is_predicted_on_rows_that_were_not_fitted() -> None:
    features = np.random.default_rng(1).normal(size=(90, 12))
    labelled = LabelledSet(
        name="line", kind="continuous", vectors=torch.zeros(90, 1), labels=(3 * features[:, 4]).tolist()
    )
    found = regress_features(lambda split: features, labelled, 0, 2)
    assert found.fit.r2 > 0.95
    assert found.fit.circular is None
    assert all(4 in chosen for chosen in found.chosen)
    assert len(regress_features(lambda split: features, labelled, 0, None).chosen[0]) == 12


def test_circular_correlation_knows_turns_mirrors_and_chance() -> None:
    generator = np.random.default_rng(0)
    angles = generator.uniform(0, 2 * np.pi, 60)
    assert circular_correlation(angles, angles + 1.3) == pytest.approx(1)
    assert circular_correlation(angles, -angles) == pytest.approx(-1)
    assert abs(circular_correlation(angles, generator.permutation(angles))) < 0.25
    assert circular_correlation(angles, np.zeros(60)) == 0
    pairs = [(i, j) for i in range(60) for j in range(i)]
    other = angles + generator.normal(size=60)
    products = [(np.sin(angles[i] - angles[j]), np.sin(other[i] - other[j])) for i, j in pairs]
    a, b = np.array(products).T
    assert circular_correlation(angles, other) == pytest.approx((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))


def test_eigenspaces_are_spanned_by_the_leading_eigenvectors() -> None:
    ae = BilinearAutoencoder(d_model=10, n_latents=5, n_hidden=8, prior="composite", mixing_density=0.3)
    bases = eigenspaces(ae, None, 4)
    for latent in range(5):
        values, vectors = spectrum(ae, latent)
        rank = min(4, int((values.abs() > 1e-9).sum()))
        basis = bases[latent, :, :rank].double()
        torch.testing.assert_close(basis @ basis.mT, vectors[:, :rank] @ vectors[:, :rank].mT, atol=1e-5, rtol=1e-4)
        assert not bases[latent, :, rank:].any()


def test_random_subspaces_are_orthonormal() -> None:
    bases = random_subspaces(3, 10, 4, 0)
    torch.testing.assert_close(bases.mT @ bases, torch.eye(4).expand(3, 4, 4), atol=1e-5, rtol=1e-5)
