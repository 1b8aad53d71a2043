"""Binary labels: logistic regression on the m features that tell the classes apart best, measured on other rows.

Features are chosen on training rows by |mean of class 1 − mean of class 0|, divided by the standard deviation within
the classes: the scale of a latent is arbitrary. Everything that is fitted (choice, scaling, penalty) is fitted inside
scikit-learn's pipeline on training rows.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from quadric.studies.probing.labelled import LabelledSet, Split

Array = np.ndarray

COUNTS: tuple[int | None, ...] = (1, 2, 5, 20, None)
"""How many features a probe may use; None is all."""
STRENGTH = 1.0
"""C of the logistic regression on a chosen few features, where it hardly matters."""
STRENGTHS = (1e-3, 1e-2, 1e-1)
"""C for all features, of which there may be more than rows: chosen by cross-validation on training rows."""
INNER_FOLDS = 3
MOST_STEPS = 2000


class Score(NamedTuple):
    """How well a probe does on rows that it was not trained on."""

    n_features: int | None
    """Features that it uses; None for all."""
    auc: float
    """Share of pairs of a positive and a negative row that it orders rightly."""
    accuracy: float


def effect_sizes(features: Float[Array, "n f"], labels: Shaped[Array, " n"]) -> Float[Array, " f"]:
    """|difference of the class means| / standard deviation within classes; 0 for a constant feature."""
    is_positive = labels == 1
    parts = (features[is_positive], features[~is_positive])
    difference = np.abs(parts[0].mean(0) - parts[1].mean(0))
    within = sum(((part - part.mean(0)) ** 2).sum(0) for part in parts) / max(1, len(labels) - 2)
    smallest = (1e-9 * np.abs(features).max(0, initial=0.0)) ** 2  # rounding of a constant feature
    return np.where(within > smallest, difference / np.sqrt(np.maximum(within, 1e-300)), 0.0)


def probe_scores(
    features: Float[Array, "n f"], labelled: LabelledSet, split: Split, counts: tuple[int | None, ...] = COUNTS
) -> list[Score]:
    """The score of a probe on m features, for every m.

    Args:
        features: Features of every row.
        labelled: The set, with binary labels.
        split: Rows to train and to test on.
        counts: How many features to use; None for all. A number above that of all features is left out.

    Returns:
        One score per count.
    """
    labels = np.asarray(labelled.labels, dtype=np.int64)
    possible = [count for count in counts if count is None or count <= features.shape[1]]
    return [_score(_probe(count), count, features, labels, split) for count in possible]


def _probe(count: int | None) -> Any:
    from sklearn.feature_selection import SelectKBest
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LogisticRegression(C=STRENGTH, max_iter=MOST_STEPS)
    if count is not None:
        chosen = SelectKBest(effect_sizes, k=count)
        return Pipeline([("chosen", chosen), ("scaled", StandardScaler()), ("probe", regression)])
    everything = Pipeline([("scaled", StandardScaler()), ("probe", regression)])
    inner = StratifiedKFold(INNER_FOLDS)
    return GridSearchCV(everything, {"probe__C": STRENGTHS}, cv=inner, scoring="roc_auc")


def _score(probe: Any, count: int | None, features: Any, labels: Array, split: Split) -> Score:
    from sklearn import config_context
    from sklearn.metrics import roc_auc_score

    # Most of the time of so many small probes would go into checks of arguments that are always the same.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        fitted = probe.fit(features[split.train], labels[split.train])
        decisions = fitted.decision_function(features[split.test])
    right = (decisions > 0) == (labels[split.test] == 1)
    return Score(count, float(roc_auc_score(labels[split.test], decisions)), float(right.mean()))


def word_scores(labelled: LabelledSet, split: Split) -> Score:
    """A probe that knows no language model: which words and marks occur in the text, and how long it is."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    assert labelled.texts is not None
    words = CountVectorizer(token_pattern=r"(?u)\b\w+\b|[^\w\s]", binary=True)
    sizes = Pipeline([("sizes", FunctionTransformer(_sizes)), ("scaled", StandardScaler())])
    surface = FeatureUnion([("words", words), ("sizes", sizes)])
    probe = Pipeline([("surface", surface), ("probe", LogisticRegression(C=STRENGTH, max_iter=MOST_STEPS))])
    texts = np.asarray(labelled.texts, dtype=object)
    return _score(probe, None, texts, np.asarray(labelled.labels, dtype=np.int64), split)


def _sizes(texts: Any) -> Float[Array, "n s"]:
    """Letters, words, capitals, digits and marks of every text."""
    counted = [
        (
            len(text),
            len(text.split()),
            sum(map(str.isupper, text)),
            sum(map(str.isdigit, text)),
            sum(not letter.isalnum() and not letter.isspace() for letter in text),
        )
        for text in texts
    ]
    return np.log1p(np.array(counted, dtype=np.float64))
