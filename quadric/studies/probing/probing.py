"""`quadric.probe`: can a label be read from a few latents, and is that more than linear features give?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadric._io.progress import Progress, progress_bar
from quadric.data.provenance import check_same_model
from quadric.explanations.explaining import language_model_of
from quadric.explanations.reading import TextReader
from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.similarity import randomly_initialized
from quadric.model import Dictionary
from quadric.model.forms import Forms
from quadric.model.lens import AffineLens
from quadric.studies.probing.catalogue import DEFAULT_SETS, load_sets
from quadric.studies.probing.classifying import COUNTS, probe_scores, word_scores
from quadric.studies.probing.families import Family, families_of
from quadric.studies.probing.labelled import LabelledSet, Split, check_enough, class_split, sample
from quadric.studies.probing.regressing import (
    DIMENSIONS,
    EIGENSPACE,
    RANDOM_LATENT,
    RANDOM_SUBSPACE,
    RAW_ALL,
    SHUFFLED,
    Regression,
    eigenspaces,
    random_subspaces,
    regress_features,
    regress_subspaces,
    shuffled,
)
from quadric.studies.probing.results import ProbeRow, Probing, RegressionRow, SetFacts
from quadric.studies.probing.vectors import POOLINGS, Pooling, TextVectors, pooled, read_vectors, vectors_of_rows

ROWS, TOKENS, SEEDS = 300, 64, 3
"""Called with the name of a set, the number of sets done, and of all sets."""
Array = np.ndarray
Table = Callable[[Split], Array]
"""From a split to the features of all rows."""
Candidate = tuple[str, str, Callable[[int], Regression]]
"""Dictionary, family, and a function from a seed to its predictions."""


def probe(
    autoencoders: Dictionary | Mapping[str, Dictionary],
    data: Sequence[str | LabelledSet] | None = None,
    *,
    seeds: int = SEEDS,
    rows: int = ROWS,
    tokens: int = TOKENS,
    counts: Sequence[int | None] = COUNTS,
    poolings: Sequence[Pooling] = POOLINGS,
    model: Any = None,
    tokenizer: Any = None,
    device: str = "auto",
    check_model: bool = True,
    cache: str | Path | None = None,
    on_progress: Progress | None = None,
) -> Probing:
    """Probe dictionaries of one hook point on labelled data, beside linear, random and dictionary-free features.

    Binary labels: logistic regression on the m features with the largest difference between the classes. Continuous and
    cyclic labels: ridge regression on the eigenspace of one latent, against as many other features. Features and all
    settings are chosen on training rows, and measured on others.

    Args:
        autoencoders: A dictionary, or several with their names, bilinear or linear, of one hook point.
        data: Names of packaged sets, or `LabelledSet`s of your own; by default a selection of packaged sets.
        seeds: Number of random splits, at least 2.
        rows: Rows per set at most; both classes of a binary set get half.
        tokens: Tokens per text at most, at its end.
        counts: Numbers of features for binary labels; None is all.
        poolings: Whether a feature of a text is its value at the last token, its mean over all tokens, or both.
            Continuous and cyclic labels are probed with the first of them.
        model: The language model: a name, a folder, or a `transformers` model in memory; by default the recorded one.
        tokenizer: Tokenizer of a model in memory.
        device: Device of a model that is loaded here.
        check_model: Whether to refuse a model that is not the one of the dictionaries.
        cache: Folder to keep activations of texts in, so that they are read once.
        on_progress: Called before every set, with its name, and at the end; by default a progress bar is shown.

    Returns:
        A `Probing`: `.rows`, `.regressions`, `.sets`; `summary_of` has means and paired differences.

    Example:
        >>> x = torch.randn(200, 32, generator=torch.Generator().manual_seed(0))
        >>> length = (x[:, 0].square() > 0.45).int().tolist()
        >>> data = quadric.studies.probing.LabelledSet(name="far out", kind="binary", vectors=x, labels=length)
        >>> quadric.probe(ae, [data], seeds=2)
        Probing(1 sets, ... probes and 0 regressions)
    """
    dictionaries = _named(autoencoders)
    _check_numbers(seeds=(seeds, 2), rows=(rows, 2), tokens=(tokens, 1))
    wanted = _wanted(data)
    reader = _reader(dictionaries, wanted, model, tokenizer, device, check_model)
    prober = _Prober(dictionaries, tuple(counts), tuple(poolings), seeds)
    facts, found, regressions = [], list[ProbeRow](), list[RegressionRow]()
    with progress_bar() if on_progress is None else nullcontext(on_progress) as report:
        for number, each in enumerate(wanted):
            report("probing", number, len(wanted), f"sets, {each.name}")
            labelled, vectors = _read(reader, sample(each, rows), tokens, None if cache is None else Path(cache))
            facts.append(_facts(labelled, vectors, seeds))
            if labelled.kind == "binary":
                found += prober.classify(labelled, vectors)
            else:
                regressions += prober.regress(labelled, vectors)
        report("probing", len(wanted), len(wanted), "sets")
    settings = {
        "dictionaries": {name: repr(each) for name, each in dictionaries.items()},
        "hook_point": next(iter(dictionaries.values())).provenance.hook_point,
        "seeds": seeds,
        "rows": rows,
        "tokens": tokens,
        "counts": list(counts),
        "poolings": list(poolings),
        "dimensions": DIMENSIONS,
    }
    return Probing(settings=settings, sets=tuple(facts), rows=tuple(found), regressions=tuple(regressions))


def _named(autoencoders: Dictionary | Mapping[str, Dictionary]) -> dict[str, Dictionary]:
    if isinstance(autoencoders, Dictionary):
        return {"dictionary": autoencoders}
    if not autoencoders:
        raise ValueError("no autoencoder to probe; give at least one")
    widths = {name: each.d_model for name, each in autoencoders.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the dictionaries have different widths ({widths}); probe those of one hook point together")
    points = {name: each.provenance.hook_point for name, each in autoencoders.items()}
    if len(set(points.values())) > 1:
        shown = ", ".join(f"{name} at {point}" for name, point in points.items())
        raise ValueError(f"the dictionaries read different hook points ({shown}); choose one with --layer (or by name)")
    return dict(autoencoders)


def _check_numbers(**given: tuple[int, int]) -> None:
    for name, (value, least) in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value!r} is too small; give a whole number of at least {least}")


def _wanted(data: Sequence[str | LabelledSet] | None) -> list[LabelledSet]:
    given = list(DEFAULT_SETS if data is None else data)
    if not given:
        raise ValueError("no data to probe on; give the names of packaged sets, or LabelledSets")
    loaded = {each.name: each for each in load_sets([each for each in given if isinstance(each, str)])}
    wanted = [loaded[each] if isinstance(each, str) else each for each in given]
    names = [each.name for each in wanted]
    if len(set(names)) < len(names):
        raise ValueError(f"two sets are named {next(name for name in names if names.count(name) > 1)!r}; rename one")
    for each in wanted:
        check_enough(each)
    return wanted


def _reader(
    dictionaries: Mapping[str, Dictionary],
    wanted: Sequence[LabelledSet],
    model: Any,
    tokenizer: Any,
    device: str,
    check_model: bool,
) -> TextReader | None:
    """What reads the texts; None if all sets are rows of activations."""
    if all(each.texts is None for each in wanted):
        return None
    first = next(iter(dictionaries.values()))
    loaded = language_model_of(first, model, tokenizer, device)
    for each in dictionaries.values() if check_model else ():
        check_same_model(loaded, each.provenance)
    return TextReader(loaded, first)


def _read(
    reader: TextReader | None, labelled: LabelledSet, tokens: int, cache: Path | None
) -> tuple[LabelledSet, TextVectors]:
    """A set and its activations, without the rows of which the rules keep no token."""
    if labelled.vectors is not None:
        check_enough(labelled)
        return labelled, vectors_of_rows(labelled.vectors)
    assert reader is not None
    vectors, kept = read_vectors(reader, labelled, most_tokens=tokens, cache=cache).without_empty()
    labelled = labelled.rows(kept.nonzero()[:, 0].numpy())
    check_enough(labelled)
    return labelled, vectors


def _facts(labelled: LabelledSet, vectors: TextVectors, seeds: int) -> SetFacts:
    words = None
    if labelled.kind == "binary" and labelled.texts is not None:
        words = float(np.mean([word_scores(labelled, class_split(labelled, seed)).auc for seed in range(seeds)]))
    return SetFacts(
        name=labelled.name,
        kind=labelled.kind,
        n_rows=len(labelled),
        n_tokens=int(vectors.counts.sum()),
        about=labelled.about,
        source=labelled.source,
        words_auc=words,
    )


class _Prober:
    """Probes one set after another with the same families."""

    def __init__(
        self,
        dictionaries: Mapping[str, Dictionary],
        counts: tuple[int | None, ...],
        poolings: tuple[Pooling, ...],
        seeds: int,
    ) -> None:
        self.counts, self.poolings, self.seeds = counts, poolings, seeds
        self.families = families_of(dictionaries)
        self.bilinear = {n: each for n, each in dictionaries.items() if isinstance(each.forms(), Forms)}
        self.untrained = {name: randomly_initialized(each, NULL_SEED) for name, each in self.bilinear.items()}
        self.known_bases: dict[str, dict[str, Tensor]] = {}
        """Candidate subspaces of dictionaries with a centre of their own."""

    def classify(self, labelled: LabelledSet, vectors: TextVectors) -> Iterator[ProbeRow]:
        """All probes of one binary set."""
        splits = [class_split(labelled, seed) for seed in range(self.seeds)]
        for pooling in self._poolings(labelled):
            for family, table in _tables(self.families, vectors.of_tokens(pooling)):
                for seed, split in enumerate(splits):
                    for score in probe_scores(table(split), labelled, split, self.counts):
                        yield ProbeRow(
                            set=labelled.name,
                            pooling=pooling,
                            dictionary=family.dictionary,
                            family=family.name,
                            seed=seed,
                            count=score.n_features,
                            auc=score.auc,
                            accuracy=score.accuracy,
                        )

    def regress(self, labelled: LabelledSet, vectors: TextVectors) -> Iterator[RegressionRow]:
        """All regressions of one continuous or cyclic set."""
        for pooling in self.poolings[:1]:
            for dictionary, family, run in self._candidates(labelled, vectors.of_tokens(pooling)):
                for seed in range(self.seeds):
                    found = run(seed)
                    yield RegressionRow(
                        set=labelled.name,
                        pooling=pooling,
                        dictionary=dictionary,
                        family=family,
                        dimensions=max(map(len, found.chosen)) if family == RAW_ALL else DIMENSIONS,
                        seed=seed,
                        r2=found.fit.r2,
                        circular=found.fit.circular,
                        chosen="" if family == RAW_ALL else " | ".join(" ".join(map(str, c)) for c in found.chosen),
                    )

    def _poolings(self, labelled: LabelledSet) -> Sequence[Pooling]:
        """Rows of activations have one token each, whose mean is its value."""
        return self.poolings if labelled.vectors is None else self.poolings[:1]

    def _candidates(self, labelled: LabelledSet, vectors: TextVectors) -> Iterator[Candidate]:
        rows = pooled(vectors.unit(), vectors)
        for name in self.bilinear:
            for kind, bases in self._bases(name, vectors.unit()).items():
                coordinates = torch.einsum("nd,kdr->nkr", rows, bases)
                yield name, kind, partial(regress_subspaces, coordinates, labelled)
                if kind == EIGENSPACE:
                    yield name, SHUFFLED, partial(_regress_shuffled, coordinates, labelled)
        for family, table in _tables(self.families, vectors):
            yield family.dictionary, family.name, partial(regress_features, table, labelled)
        everything = rows.double().numpy()
        yield "", RAW_ALL, partial(regress_features, lambda split: everything, labelled, count=None)

    def _bases(self, name: str, unit: Tensor) -> dict[str, Tensor]:
        """Bases of all candidate subspaces; a raw dictionary is read about the mean of the set's tokens."""
        if name in self.known_bases:
            return self.known_bases[name]
        own, centre = self.bilinear[name], unit.double().mean(0)
        found = {
            EIGENSPACE: eigenspaces(own, centre),
            RANDOM_LATENT: eigenspaces(self.untrained[name], centre),
            RANDOM_SUBSPACE: random_subspaces(own.n_latents, own.d_model, DIMENSIONS, NULL_SEED),
        }
        if isinstance(own.lens, AffineLens):
            self.known_bases[name] = found
        return found


def _regress_shuffled(coordinates: Tensor, labelled: LabelledSet, seed: int) -> Regression:
    return regress_subspaces(coordinates, shuffled(labelled, seed), seed)


def _tables(families: Sequence[Family], vectors: TextVectors) -> Iterator[tuple[Family, Table]]:
    """Every family with a function from a split to the features of all rows."""
    unit, owners = vectors.unit(), vectors.owners.numpy()
    n_rows = len(vectors.counts)
    for family in families:
        tokens = vectors.at_own_length() if family.at_own_length else unit

        def table(split: Split, family: Family = family, tokens: Tensor = tokens) -> Array:
            is_train = torch.from_numpy(split.is_train(n_rows)[owners])
            found: Array = pooled(family.features(tokens, is_train).double(), vectors).numpy()
            return found

        if family.is_fitted:
            yield family, table
        else:
            yield family, partial(_same, table(Split(np.arange(n_rows), np.arange(0))))


def _same(features: Array, split: Split) -> Array:
    return features
