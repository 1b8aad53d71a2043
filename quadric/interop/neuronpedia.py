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
from quadric.interop.passes import Reading, Side, away_from_rest, token_values
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


WHICH: dict[Side, tuple[int, int]] = {"positive": (POSITIVE, 1), "negative": (NEGATIVE, -1)}
"""The contexts of a side, and the sign with which values are farther from rest the larger they are."""


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
    """Read the activations of the evidence again and write what Neuronpedia imports; returns the folder of the source.

    `model_name` is Neuronpedia's id of the language model, by default the recorded name; `creator` is its id of the
    user to whom the import belongs.
    """
    evidence.check_weights(autoencoder)
    place = _place(autoencoder, side, model_name, creator)
    windows, edges = chosen_windows(evidence, side), histogram_edges(evidence, side)
    values, counts = _measure(autoencoder, reading, evidence, side, windows, edges)
    _check_same_text(evidence, side, windows, values)
    rows = _Rows(place, evidence, windows, values, counts, edges)
    inside = Path(place.model, place.source)
    for name, row in _heads(place, evidence).items():
        _write_lines(folder / inside / f"{name}.jsonl", [row])
    for number, start in enumerate(range(0, evidence.n_latents, LATENTS_PER_BATCH)):
        latents = range(start, min(start + LATENTS_PER_BATCH, evidence.n_latents))
        for name, lines in {
            "features": rows.features(latents),
            "activations": rows.activations(latents),
            "explanations": rows.explanations(latents),
        }.items():
            _write_lines(folder / inside / name / f"batch-{number}.jsonl.gz", lines)
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
    which, factor = WHICH[side]
    contexts = evidence.contexts.places[latent, which].tolist()
    away = factor * (evidence.points.values[latent] - evidence.calibration.rest[latent])
    order = np.argsort(-away, kind="stable")
    points = evidence.points.places[latent][order[away[order] > 0]].tolist()
    return [place for place in dict.fromkeys([*contexts, *points]) if place != MISSING][:CONTEXTS]


def histogram_edges(evidence: Evidence, side: Side) -> Float32[Array, "k b1"]:
    """Equal bars between the smallest and largest value of each latent, which are among its contexts."""
    strongest = np.where(evidence.contexts.places == MISSING, np.nan, evidence.contexts.values)
    rest = evidence.calibration.rest
    ends = WHICH[side][1] * (np.stack([strongest[:, POSITIVE, 0], strongest[:, NEGATIVE, 0]]) - rest)
    low, high = np.nan_to_num(np.fmin(*ends)).clip(max=0), np.nan_to_num(np.fmax(*ends)).clip(min=1e-12)
    return np.linspace(low, high, BARS + 1, axis=1).astype(np.float32)


def _measure(
    autoencoder: Dictionary,
    reading: Reading,
    evidence: Evidence,
    side: Side,
    windows: Windows,
    edges: Float32[Array, "k b1"],
) -> tuple[Float32[Array, " v"], Int64[Array, "k b"]]:
    """One pass: the value of each window's latent on each of its positions, and every latent's histogram."""
    lengths = windows.ends - windows.starts
    places = np.arange(windows.offsets[-1]) + np.repeat(windows.starts - windows.offsets[:-1], lengths)
    # In the order of the text, so that the places of a batch are one slice.
    order = np.argsort(places, kind="stable")
    places, owners = places[order], np.repeat(windows.latents, lengths)[order]
    values = np.zeros(len(places), dtype=np.float32)
    counts = np.zeros((evidence.n_latents, BARS), dtype=np.int64)
    distance, low, width = away_from_rest(evidence, side), edges[:, 0], np.diff(edges, axis=1)[:, 0]
    read = np.zeros(0, dtype=np.int64)  # sequences are numbered as they are read, as in the text of evidence
    for sequences, positions, latents in token_values(autoencoder, reading):
        away = distance(latents)
        read = np.union1d(read, sequences)
        here = evidence.text.sequence_starts[np.searchsorted(read, sequences)] + positions
        rows = np.full(here.max() - here.min() + 1, -1)
        rows[here - here.min()] = np.arange(len(here))
        some = slice(*np.searchsorted(places, [here.min(), here.max() + 1]))
        row = rows[places[some] - here.min()]
        known = row >= 0
        values[order[some][known]] = away[row[known], owners[some][known]]
        bars = ((away - low) / width).astype(np.int64).clip(0, BARS - 1) + BARS * np.arange(evidence.n_latents)
        counts += np.bincount(bars.ravel(), minlength=counts.size).reshape(counts.shape)
    return values, counts


def _check_same_text(evidence: Evidence, side: Side, windows: Windows, values: Float32[Array, " v"]) -> None:
    """Raise unless the strongest context of every latent has the value here that it has in the evidence."""
    which, factor = WHICH[side]
    latents, first = np.unique(windows.latents, return_index=True)
    has_context = evidence.contexts.places[latents, which, 0] != MISSING
    latents, first = latents[has_context], first[has_context]
    known = factor * (evidence.contexts.values[latents, which, 0] - evidence.calibration.rest[latents])
    measured = values[windows.offsets[first] + windows.places[first] - windows.starts[first]]
    wrong = ~np.isclose(known, measured, rtol=SAME_VALUE, atol=SAME_VALUE * np.abs(known).max(initial=0))
    if wrong.any():
        raise ValueError(
            f"{int(wrong.sum())} of {len(wrong)} latents have another value at their strongest context than in the "
            "evidence; give the activations that the evidence was collected from"
        )


NOT_KNOWN = (
    *("logits_hist_data_bar_heights", "logits_hist_data_bar_values", "decoder_weights_dist"),
    *("neuron_alignment_indices", "neuron_alignment_values", "neuron_alignment_l1"),
    *("correlated_neurons_indices", "correlated_neurons_pearson", "correlated_neurons_l1"),
    *("correlated_features_indices", "correlated_features_pearson", "correlated_features_l1"),
    *("neg_str", "neg_values", "pos_str", "pos_values", "topkCosSimIndices", "topkCosSimValues"),
)
"""Columns about logits and neurons, which a quadratic latent has no single direction for."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """The lines about some latents."""

    place: Place
    evidence: Evidence
    windows: Windows
    values: Float32[Array, " v"]
    """Of every position of every window."""
    counts: Int64[Array, "k b"]
    """Histogram of each latent over all tokens."""
    edges: Float32[Array, "k b1"]

    def features(self, latents: range) -> Iterator[dict[str, Any]]:
        middles = (self.edges[:, 1:] + self.edges[:, :-1]) / 2
        for latent in latents:
            first, last = np.searchsorted(self.windows.latents, [latent, latent + 1])
            strongest = max((self._window(each).max() for each in range(first, last)), default=0.0)
            yield {
                "modelId": self.place.model,
                "layer": self.place.source,
                "index": str(latent),
                "creatorId": self.place.creator,
                "maxActApprox": float(strongest),
                "frac_nonzero": float(self.evidence.statistics.firing_share[latent]),
                "freq_hist_data_bar_heights": self.counts[latent].tolist(),
                "freq_hist_data_bar_values": _rounded(middles[latent]),
                **{name: [] for name in NOT_KNOWN},
                "sourceSetName": SET_NAME,
                "hookName": self.place.hook_name,
                "hasVector": False,
                "vector": [],
            }

    def activations(self, latents: range) -> Iterator[dict[str, Any]]:
        first, last = np.searchsorted(self.windows.latents, [latents.start, latents.stop])
        for each in range(first, last):
            values, latent = self._window(each), str(self.windows.latents[each])
            ids = self.evidence.text.token_ids[self.windows.starts[each] : self.windows.ends[each]]
            highest = float(values.max())
            yield {
                "id": _identifier(self.place, latent, int(self.windows.places[each])),
                "tokens": [
                    self.evidence.text.vocabulary[token].decode("utf-8", errors="replace") for token in ids.tolist()
                ],
                "modelId": self.place.model,
                "layer": self.place.source,
                "index": latent,
                "values": _rounded(values),
                "maxValue": highest,
                "maxValueTokenIndex": int(values.argmax()),
                "minValue": float(values.min()),
                "creatorId": self.place.creator,
                "dataSource": self.evidence.provenance.corpus,
                "dataIndex": None,
                "binMin": TOP_BIN,
                "binMax": highest,
                "binContains": TOP_BIN,
                "qualifyingTokenIndex": int(self.windows.places[each] - self.windows.starts[each]),
                "dfaValues": [],
                "lossValues": [],
            }

    def explanations(self, latents: range) -> Iterator[dict[str, Any]]:
        written = self.evidence.labels.from_model
        for latent in latents:
            if not (text := self.evidence.labels.of(latent)):
                continue
            yield {
                "id": _identifier(self.place, str(latent), "explanation"),
                "modelId": self.place.model,
                "layer": self.place.source,
                "index": str(latent),
                "authorId": self.place.creator,
                "description": text,
                "typeName": "quadric-label",
                "explanationModelName": written.model if written is not None and latent in written.texts else None,
            }

    def _window(self, number: int) -> Float32[Array, " l"]:
        return self.values[self.windows.offsets[number] : self.windows.offsets[number + 1]]


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
