"""Latents as Neuronpedia imports them: one folder per source, JSON lines in batches.

    OUT/MODEL/SOURCE/release.jsonl, model.jsonl, sourceset.jsonl, source.jsonl   one line each
    OUT/MODEL/SOURCE/features/batch-N.jsonl.gz       one line per latent: how often it fires, and its histogram
    OUT/MODEL/SOURCE/activations/batch-N.jsonl.gz    one line per context: tokens, and the latent's value on each
    OUT/MODEL/SOURCE/explanations/batch-N.jsonl.gz   one line per label

Values are distances from rest on one side, sign·z − rest, see `passes.away_from_rest`; they may be negative. A token
that the rules of the activations dropped was not read and has value 0.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from quadric._io.files import is_plain_name, write_atomically
from quadric.evidence import Evidence
from quadric.evidence.record import MISSING, NEGATIVE, POSITIVE
from quadric.interop.hook_names import transformer_lens_name
from quadric.interop.passes import Reading, Side, away_from_rest, check_evidence, token_values
from quadric.model import Dictionary

Array = np.ndarray

LATENTS_PER_BATCH = 1024
"""Neuronpedia's own."""
REACH = 32
"""Tokens shown on each side of a context, within its sequence."""
CONTEXTS = 20
"""Contexts per latent, the strongest."""
BARS = 50
SAME_VALUE = 1e-3
"""Relative to the largest value; another batch size or machine changes the last digits of an activation."""
SET_NAME = "quadric"
CREATOR = "quadric"
"""Neuronpedia's id of the creator where none is given; an import replaces it by its own."""
TOP_BIN = -1
"""How Neuronpedia marks contexts that are the strongest, rather than drawn from an interval of values."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the latents are shown, in Neuronpedia's words."""

    model: str
    source: str
    """E.g. 15-quadric."""
    hook_name: str
    creator: str


class Windows(NamedTuple):
    """The contexts of all latents, each a run of positions of the text."""

    latents: Int64[Array, " c"]
    places: Int64[Array, " c"]
    """The token for which the context was chosen."""
    starts: Int64[Array, " c"]
    ends: Int64[Array, " c"]
    offsets: Int64[Array, " c1"]
    """Where each context's values begin in the values of all."""


class Measured(NamedTuple):
    """What the pass adds to the evidence."""

    values: Float32[Array, " v"]
    """Of every position of every window."""
    counts: Int64[Array, "k b"]
    """Histogram of each latent over all tokens."""


def write_neuronpedia(
    folder: Path,
    autoencoder: Dictionary,
    reading: Reading,
    evidence: Evidence,
    *,
    side: Side = "positive",
    model_name: str | None = None,
    creator: str = CREATOR,
) -> Path:
    """Read the activations of the evidence again and write what Neuronpedia imports.

    Args:
        folder: Where to.
        autoencoder: A bilinear autoencoder.
        reading: The activations that the evidence was collected from, and their text.
        evidence: Contexts, statistics and labels of its latents.
        side: Which side of a latent: the one with more energy, or the other.
        model_name: Neuronpedia's id of the language model; by default the recorded name.
        creator: Neuronpedia's id of the user to whom the import belongs.

    Returns:
        The folder of the source, relative to `folder`.
    """
    check_evidence(autoencoder, evidence)
    place = _place(autoencoder, side, model_name, creator)
    windows = chosen_windows(evidence, side)
    edges = histogram_edges(evidence, side)
    measured = _measure(autoencoder, reading, evidence, side, windows, edges)
    _check_same_text(evidence, side, windows, measured)
    inside = Path(place.model, place.source)
    for name, row in _heads(place, evidence).items():
        _write_lines(folder / inside / f"{name}.jsonl", [row])
    for number, start in enumerate(range(0, evidence.n_latents, LATENTS_PER_BATCH)):
        latents = range(start, min(start + LATENTS_PER_BATCH, evidence.n_latents))
        tables = {
            "features": _features(latents, place, evidence, windows, measured, edges),
            "activations": _activations(latents, place, evidence, windows, measured),
            "explanations": _explanations(latents, place, evidence),
        }
        for name, rows in tables.items():
            _write_lines(folder / inside / name / f"batch-{number}.jsonl.gz", rows)
    return inside


def load_lines(folder: Path, inside: Path) -> str:
    """Lines of Python that look into the folder; Neuronpedia's own import reads a bucket or a local server's folder."""
    path = str(folder / inside / "activations" / "batch-0.jsonl.gz")
    return f"import gzip, json\nactivations = [json.loads(line) for line in gzip.open({path!r})]"


def chosen_windows(evidence: Evidence, side: Side) -> Windows:
    """The strongest contexts of each latent on one side, no two on the same place, and the text around them."""
    latents, places = [], []
    for latent in range(evidence.n_latents):
        chosen = strongest_places(evidence, latent, side)
        latents += [latent] * len(chosen)
        places += chosen
    here, rows = np.array(places, dtype=np.int64), np.array(latents, dtype=np.int64)
    text = evidence.text
    number = np.searchsorted(text.sequence_starts, here, side="right") - 1
    bounds = np.append(text.sequence_starts, len(text.token_ids))
    starts, ends = np.maximum(here - REACH, bounds[number]), np.minimum(here + REACH + 1, bounds[number + 1])
    return Windows(rows, here, starts, ends, np.concatenate([[0], np.cumsum(ends - starts)]))


def strongest_places(evidence: Evidence, latent: int, side: Side) -> list[int]:
    """The contexts of a latent's side, then its strongest points there, by distance from rest."""
    which, factor = (POSITIVE, 1) if side == "positive" else (NEGATIVE, -1)
    contexts = evidence.contexts.places[latent, which].tolist()
    away = factor * (evidence.points.values[latent] - evidence.calibration.rest[latent])
    order = np.argsort(-away, kind="stable")
    points = evidence.points.places[latent][order[away[order] > 0]].tolist()
    return [place for place in dict.fromkeys([*contexts, *points]) if place != MISSING][:CONTEXTS]


def histogram_edges(evidence: Evidence, side: Side) -> Float32[Array, "k b1"]:
    """Equal bars between the smallest and largest value of each latent, which are among its contexts."""
    strongest = np.where(evidence.contexts.places == MISSING, np.nan, evidence.contexts.values)
    factor = 1 if side == "positive" else -1
    rest = evidence.calibration.rest
    ends = factor * (np.stack([strongest[:, POSITIVE, 0], strongest[:, NEGATIVE, 0]]) - rest)
    low, high = np.nan_to_num(np.fmin(*ends)).clip(max=0), np.nan_to_num(np.fmax(*ends)).clip(min=1e-12)
    return np.linspace(low, high, BARS + 1, axis=1).astype(np.float32)


def _measure(
    autoencoder: Dictionary,
    reading: Reading,
    evidence: Evidence,
    side: Side,
    windows: Windows,
    edges: Float32[Array, "k b1"],
) -> Measured:
    """One pass: the value of each window's latent on each of its positions, and every latent's histogram."""
    wanted = _Wanted(windows)
    values = np.zeros(windows.offsets[-1], dtype=np.float32)
    counts = np.zeros((evidence.n_latents, BARS), dtype=np.int64)
    index, distance, starts = _TextIndex(), away_from_rest(evidence, side), evidence.text.sequence_starts
    for sequences, positions, latents in token_values(autoencoder, reading):
        away = distance(latents)
        wanted.fill(values, starts[index.of(sequences)] + positions, away)
        low, width = edges[:, 0], np.diff(edges, axis=1)[:, 0]
        bars = ((away - low) / width).astype(np.int64).clip(0, BARS - 1) + BARS * np.arange(evidence.n_latents)
        counts += np.bincount(bars.ravel(), minlength=counts.size).reshape(counts.shape)
    return Measured(values, counts)


def _check_same_text(evidence: Evidence, side: Side, windows: Windows, measured: Measured) -> None:
    """Raise unless the strongest context of every latent has the value here that it has in the evidence."""
    which, factor = (POSITIVE, 1) if side == "positive" else (NEGATIVE, -1)
    latents, first = np.unique(windows.latents, return_index=True)
    has_context = evidence.contexts.places[latents, which, 0] != MISSING
    latents, first = latents[has_context], first[has_context]
    known = factor * (evidence.contexts.values[latents, which, 0] - evidence.calibration.rest[latents])
    found = measured.values[windows.offsets[first] + windows.places[first] - windows.starts[first]]
    wrong = ~np.isclose(known, found, rtol=SAME_VALUE, atol=SAME_VALUE * np.abs(known).max(initial=0))
    if wrong.any():
        raise ValueError(
            f"{int(wrong.sum())} of {len(wrong)} latents have another value at their strongest context than in the "
            "evidence; give the activations that the evidence was collected from"
        )


class _TextIndex:
    """Numbers sequences in the order in which they are read, as the text of evidence does."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, dtype=np.int64)

    def of(self, sequences: Int64[Array, " n"]) -> Int64[Array, " n"]:
        self.seen = np.union1d(self.seen, sequences)
        return np.searchsorted(self.seen, sequences)


class _Wanted:
    """Positions of windows, ordered by place in the text, so that a batch finds its own at once."""

    def __init__(self, windows: Windows) -> None:
        lengths = windows.ends - windows.starts
        within = np.arange(windows.offsets[-1]) - np.repeat(windows.offsets[:-1], lengths)
        places = np.repeat(windows.starts, lengths) + within
        self.order = np.argsort(places, kind="stable")
        self.places, self.latents = places[self.order], np.repeat(windows.latents, lengths)[self.order]

    def fill(self, values: Float32[Array, " v"], places: Int64[Array, " n"], away: Float32[Array, "n k"]) -> None:
        first, last = np.searchsorted(self.places, [places.min(), places.max() + 1])
        rows = np.full(places.max() - places.min() + 1, -1)
        rows[places - places.min()] = np.arange(len(places))
        found = rows[self.places[first:last] - places.min()]
        read = found >= 0
        values[self.order[first:last][read]] = away[found[read], self.latents[first:last][read]]


def _features(
    latents: range,
    place: Place,
    evidence: Evidence,
    windows: Windows,
    measured: Measured,
    edges: Float32[Array, "k b1"],
) -> Iterator[dict[str, Any]]:
    middles = (edges[:, 1:] + edges[:, :-1]) / 2
    for latent in latents:
        first, last = np.searchsorted(windows.latents, [latent, latent + 1])
        strongest = max((_window(measured.values, windows, each).max() for each in range(first, last)), default=0.0)
        yield {
            "modelId": place.model,
            "layer": place.source,
            "index": str(latent),
            "creatorId": place.creator,
            "maxActApprox": float(strongest),
            "frac_nonzero": float(evidence.statistics.firing_share[latent]),
            "freq_hist_data_bar_heights": measured.counts[latent].tolist(),
            "freq_hist_data_bar_values": _rounded(middles[latent]),
            **{name: [] for name in NOT_KNOWN},
            "sourceSetName": SET_NAME,
            "hookName": place.hook_name,
            "hasVector": False,
            "vector": [],
        }


NOT_KNOWN = (
    *("logits_hist_data_bar_heights", "logits_hist_data_bar_values", "decoder_weights_dist"),
    *("neuron_alignment_indices", "neuron_alignment_values", "neuron_alignment_l1"),
    *("correlated_neurons_indices", "correlated_neurons_pearson", "correlated_neurons_l1"),
    *("correlated_features_indices", "correlated_features_pearson", "correlated_features_l1"),
    *("neg_str", "neg_values", "pos_str", "pos_values", "topkCosSimIndices", "topkCosSimValues"),
)
"""Columns about logits and neurons, which a quadratic latent has no single direction for."""


def _activations(
    latents: range, place: Place, evidence: Evidence, windows: Windows, measured: Measured
) -> Iterator[dict[str, Any]]:
    first, last = np.searchsorted(windows.latents, [latents.start, latents.stop])
    for each in range(first, last):
        values, latent = _window(measured.values, windows, each), str(windows.latents[each])
        ids = evidence.text.token_ids[windows.starts[each] : windows.ends[each]]
        highest = float(values.max())
        yield {
            "id": _identifier(place, latent, int(windows.places[each])),
            "tokens": [evidence.text.vocabulary[token].decode("utf-8", errors="replace") for token in ids.tolist()],
            "modelId": place.model,
            "layer": place.source,
            "index": latent,
            "values": _rounded(values),
            "maxValue": highest,
            "maxValueTokenIndex": int(values.argmax()),
            "minValue": float(values.min()),
            "creatorId": place.creator,
            "dataSource": evidence.provenance.corpus,
            "dataIndex": None,
            "binMin": TOP_BIN,
            "binMax": highest,
            "binContains": TOP_BIN,
            "qualifyingTokenIndex": int(windows.places[each] - windows.starts[each]),
            "dfaValues": [],
            "lossValues": [],
        }


def _explanations(latents: range, place: Place, evidence: Evidence) -> Iterator[dict[str, Any]]:
    written = evidence.labels.from_model
    for latent in latents:
        if not (text := evidence.labels.of(latent)):
            continue
        yield {
            "id": _identifier(place, str(latent), "explanation"),
            "modelId": place.model,
            "layer": place.source,
            "index": str(latent),
            "authorId": place.creator,
            "description": text,
            "typeName": "quadric-label",
            "explanationModelName": written.model if written is not None and latent in written.texts else None,
        }


def _heads(place: Place, evidence: Evidence) -> dict[str, dict[str, Any]]:
    """The release, model, set and source that the latents belong to."""
    licence = f" Text: {evidence.corpus_licence}." if evidence.corpus_licence else ""
    about = f"Quadratic latents at {place.hook_name}; values are distances from rest.{licence}"
    by = {"creatorId": place.creator}
    return {
        "release": {"name": SET_NAME, "description": about, "creatorName": place.creator, **by, "urls": []},
        "model": {"id": place.model, "displayName": place.model, "displayNameShort": place.model, **by},
        "sourceset": {"modelId": place.model, "name": SET_NAME, "description": about, "releaseName": SET_NAME, **by},
        "source": {
            "id": place.source,
            "modelId": place.model,
            "setName": SET_NAME,
            "dataset": evidence.provenance.corpus,
            "num_prompts": len(evidence.text.sequence_starts),
            "num_tokens_in_prompt": evidence.provenance.block_length,
            "hasDashboards": True,
            "notes": f"{about} Labels without a model: {evidence.labels.method}.",
            **by,
        },
    }


def _place(autoencoder: Dictionary, side: Side, model_name: str | None, creator: str) -> Place:
    hook, model = transformer_lens_name(autoencoder.provenance.hook_point), model_name or autoencoder.provenance.model
    if hook is None or model is None:
        raise ValueError("the dictionary records no language model and hook point, under which Neuronpedia files it")
    model = model.rsplit("/", 1)[-1]
    if not is_plain_name(model):
        raise ValueError(f"model_name={model_name!r} does not end in a name for a folder; give one, e.g. gpt2-small")
    suffix = "" if side == "positive" else "-negative"
    return Place(model=model, source=f"{hook.layer}-{SET_NAME}{suffix}", hook_name=hook.name, creator=creator)


def _window(values: Float32[Array, " v"], windows: Windows, number: int) -> Float32[Array, " l"]:
    return values[windows.offsets[number] : windows.offsets[number + 1]]


def _rounded(values: Float32[Array, " l"]) -> list[float]:
    """Six significant digits: a third of the bytes, and more than a page shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def _identifier(place: Place, latent: str, what: object) -> str:
    """The same for the same content, so that importing twice does not add rows."""
    return "q" + hashlib.sha256(f"{place.model}/{place.source}/{latent}/{what}".encode()).hexdigest()[:24]


def _write_lines(path: Path, rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
