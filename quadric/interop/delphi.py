"""Latents as delphi caches them, for its explainers and scorers.

    OUT/latents/HOOK/START_END.safetensors   locations (entry, 3), activations (entry,), tokens (sequence, position)
    OUT/latents/HOOK/config.json             where they come from

A location is sequence, position and latent − START. delphi takes every entry for a firing and larger ones for stronger,
which suits ReLU latents. Quadratic latents are signed, and never exactly at rest: an entry is written where a latent is
farther from rest than a quantile of its own distribution, on one side, and its activation is the distance from rest.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64
from safetensors.numpy import save as serialize_arrays

from quadric._io.files import write_atomically, write_json
from quadric.evidence import Evidence, RowText, TextSource
from quadric.evidence.text import HarvestedText
from quadric.interop.hook_names import module_name
from quadric.interop.passes import Reading, Side, away_from_rest, token_values
from quadric.model import Dictionary

Array = np.ndarray

LATENTS = "latents"
LATENTS_PER_FILE = 1024
EXAMPLE_LENGTH = 32
"""delphi cuts sequences into examples of this many tokens, so their length has to be a multiple of it."""
QUANTILE = 0.99


@dataclass(frozen=True, kw_only=True)
class FiringRule:
    """When a quadratic latent fires."""

    quantile: float = QUANTILE
    """Of sign·z, above which a token fires on the positive side; below 1 − quantile it fires on the negative one."""
    side: Side = "positive"


class Entries(NamedTuple):
    """Where latents fire, and how strongly."""

    sequences: Int64[Array, " e"]
    positions: Int64[Array, " e"]
    latents: Int64[Array, " e"]
    activations: Float32[Array, " e"]


def write_delphi(
    folder: Path,
    autoencoder: Dictionary,
    reading: Reading,
    evidence: Evidence | None,
    *,
    rule: FiringRule | None = None,
    model_name: str | None = None,
) -> str:
    """Read the activations once and write where each latent fires; returns delphi's name of the hook point.

    A bilinear autoencoder needs evidence, for signs, values at rest and quantiles. A linear one needs none: its latents
    fire where they are not zero. `model_name` is that of the model on the hub whose tokenizer delphi loads.
    """
    if isinstance(reading.text, RowText):
        raise ValueError("rows of a tensor have no tokens of a language model, which delphi shows; harvest activations")
    rule = rule or FiringRule()
    numbers, entries = firing_entries(autoencoder, reading, evidence, rule)
    entries = entries._replace(sequences=np.searchsorted(numbers, entries.sequences))  # rows of the table of tokens
    tokens = token_table(reading.text, numbers)
    hook = module_name(autoencoder.provenance.hook_point) or "activations"
    for start in range(0, autoencoder.n_latents, LATENTS_PER_FILE):
        end = min(start + LATENTS_PER_FILE, autoencoder.n_latents)
        arrays = split_arrays(entries, start, end) | {"tokens": tokens}
        path = folder / LATENTS / hook / f"{start}_{end - 1}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, serialize_arrays(arrays))
    record = _config(autoencoder, tokens, rule if evidence is not None else None, model_name)
    write_json(folder / LATENTS / hook / "config.json", record)
    return hook


def firing_entries(
    autoencoder: Dictionary, reading: Reading, evidence: Evidence | None, rule: FiringRule
) -> tuple[Int64[Array, " s"], Entries]:
    """All sequences that were read, and every place where a latent fires, in the order of the text."""
    if evidence is not None:
        evidence.check_weights(autoencoder)
    distance = away_from_rest(evidence, rule.side) if evidence is not None else lambda values: values
    limits = firing_limits(evidence, rule) if evidence is not None else np.zeros(autoencoder.n_latents, np.float32)
    read, parts = [], []
    for sequences, positions, values in token_values(autoencoder, reading):
        away = distance(values)
        tokens, latents = np.nonzero(away > limits)
        parts.append(Entries(sequences[tokens], positions[tokens], latents, away[tokens, latents]))
        read.append(np.unique(sequences))
    return np.unique(np.concatenate(read)), Entries(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def firing_limits(evidence: Evidence, rule: FiringRule) -> Float32[Array, " k"]:
    """The distance from rest beyond which each latent fires; at least 0, so that a firing is on its side of rest."""
    known = evidence.statistics
    wanted = rule.quantile if rule.side == "positive" else 1 - rule.quantile
    found = [number for number, each in enumerate(known.probabilities) if math.isclose(each, wanted, abs_tol=1e-9)]
    if not found or rule.quantile <= 0.5:
        choices = ", ".join(f"{each:g}" for each in known.probabilities if each > 0.5)
        raise ValueError(f"quantile={rule.quantile} is none that the evidence holds; choose one of {choices}")
    factor = 1 if rule.side == "positive" else -1
    limits = factor * (known.quantiles[:, found[0]] - evidence.calibration.rest)
    return np.asarray(np.maximum(limits, 0).astype(np.float32))


def token_table(text: TextSource, numbers: Int64[Array, " s"]) -> Int64[Array, "s l"]:
    """The tokens of the sequences as a table; shorter ones are filled up with the token that separates documents."""
    sequences = [text.sequence(int(number)).tokens for number in numbers]
    length = -(-max(map(len, sequences)) // EXAMPLE_LENGTH) * EXAMPLE_LENGTH
    table = np.full((len(sequences), length), _filler(text), dtype=np.int64)
    for row, tokens in zip(table, sequences, strict=True):
        row[: len(tokens)] = tokens
    return table


def split_arrays(entries: Entries, start: int, end: int) -> dict[str, Array]:
    """The entries of latents from `start` to `end` (exclusive), in the smallest type that delphi uses."""
    chosen = (entries.latents >= start) & (entries.latents < end)
    columns = (entries.sequences[chosen], entries.positions[chosen], entries.latents[chosen] - start)
    locations = np.stack(columns, axis=1)
    small = not locations.size or locations.max() < 2**16
    return {
        "locations": locations.astype(np.uint16 if small else np.uint32),
        "activations": entries.activations[chosen].astype(np.float32),
    }


def load_lines(folder: Path, hook: str) -> str:
    """Lines of Python that load the folder."""
    return (
        "from delphi.config import ConstructorConfig, SamplerConfig; from delphi.latents import LatentDataset\n"
        f"data = LatentDataset({str(folder / LATENTS)!r}, SamplerConfig(), ConstructorConfig(), modules=[{hook!r}])"
    )


def _filler(text: TextSource) -> int:
    tokenizer: Any = text.activations.tokenizer if isinstance(text, HarvestedText) else getattr(text, "tokenizer", None)
    known = (getattr(tokenizer, name, None) for name in ("separator", "bos"))
    return next((each for each in known if each is not None), 0)


def _config(
    autoencoder: Dictionary, tokens: Int64[Array, "s l"], rule: FiringRule | None, model_name: str | None
) -> dict[str, Any]:
    """delphi's cache config, and how Quadric's latents were turned into firings."""
    provenance = autoencoder.provenance
    return {
        "dataset_repo": provenance.corpus or "",
        "dataset_split": provenance.split or "",
        "dataset_name": "",
        "dataset_column": "text",
        "batch_size": 32,
        "cache_ctx_len": tokens.shape[1],
        "ctx_len": tokens.shape[1],
        "n_tokens": int(tokens.size),
        "n_splits": -(-autoencoder.n_latents // LATENTS_PER_FILE),
        "model_name": model_name or provenance.model or "",
        "quadric": {"hook_point": provenance.hook_point, "firing": None if rule is None else asdict(rule)},
    }
