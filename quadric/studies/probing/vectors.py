"""Activations of every token of some texts, from one forward pass per text, and how they are pooled.

A feature is computed for every token and then pooled: the value at the last token, or the mean over all tokens. Tokens
that the dictionary's rules drop (special tokens, attention sinks) are no part of either.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from quadric._io.files import write_atomically
from quadric.explanations.reading import TextReader
from quadric.model.objective import check_tokens, unit_tokens
from quadric.studies.probing.labelled import LabelledSet

Pooling = Literal["last", "mean"]
POOLINGS: tuple[Pooling, ...] = ("last", "mean")
TEXTS_AT_ONCE = 64
SEQUENCES = 32


class TextVectors(NamedTuple):
    """Activations of the tokens of n texts, in order, as direction and length."""

    directions: Float[Tensor, "t d"]
    """In float16, since they are kept on disk."""
    lengths: Float[Tensor, " t"]
    counts: Int[Tensor, " n"]
    """Tokens per text; 0 for a text of which the rules keep none."""

    @property
    def owners(self) -> Int[Tensor, " t"]:
        """The text of every token."""
        return torch.repeat_interleave(torch.arange(len(self.counts)), self.counts)

    @property
    def last(self) -> Int[Tensor, " n"]:
        """Place of the last token of every text."""
        return self.counts.cumsum(0) - 1

    def of_tokens(self, pooling: Pooling) -> "TextVectors":
        """The tokens that a pooling needs: all of them, or the last of every text."""
        if pooling == "mean":
            return self
        return TextVectors(self.directions[self.last], self.lengths[self.last], torch.ones_like(self.counts))

    def unit(self) -> Float[Tensor, "t d"]:
        """The activations at unit norm."""
        return unit_tokens(self.directions.float())

    def at_own_length(self) -> Float[Tensor, "t d"]:
        """The activations as the language model computed them, for dictionaries that read them so."""
        return self.unit() * self.lengths[:, None]

    def without_empty(self) -> tuple["TextVectors", Bool[Tensor, " n"]]:
        """The texts that have a token, and which of all texts these are."""
        kept = self.counts > 0
        return TextVectors(self.directions, self.lengths, self.counts[kept]), kept


def pooled(features: Float[Tensor, "t f"], vectors: TextVectors) -> Float[Tensor, "n f"]:
    """The mean of every feature over the tokens of each text."""
    total = torch.zeros(len(vectors.counts), features.shape[1], dtype=features.dtype)
    total.index_add_(0, vectors.owners, features)
    return total / vectors.counts[:, None].to(features.dtype)


def vectors_of_rows(rows: Tensor) -> TextVectors:
    """Rows of activations as texts of one token each."""
    check_tokens(rows, rows.shape[-1])
    return TextVectors(*_direction_and_length(rows), torch.ones(len(rows), dtype=torch.int64))


def _direction_and_length(vectors: Float[Tensor, "t d"]) -> tuple[Float[Tensor, "t d"], Float[Tensor, " t"]]:
    vectors = vectors.float()
    directions = unit_tokens(vectors) if len(vectors) else vectors
    return directions.half(), vectors.norm(dim=1)


def read_vectors(
    reader: TextReader,
    labelled: LabelledSet,
    *,
    most_tokens: int,
    cache: Path | None = None,
) -> TextVectors:
    """Activations of a set's texts, from the cache if they were read before.

    Args:
        reader: Reads texts at the dictionary's hook point.
        labelled: The set.
        most_tokens: Only so many tokens at the end of each text are read.
        cache: Folder to keep activations in, and to look for them.

    Returns:
        Activations of all tokens that the rules keep.
    """
    path = None if cache is None else cache / f"{labelled.name}-{_key(reader, labelled, most_tokens)}.safetensors"
    if path is not None and path.is_file():
        return _stored(path, len(labelled), reader.model.d_model)
    found = _read(reader, list(labelled.texts or ()), most_tokens)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save_tensors({name: each.contiguous() for name, each in found._asdict().items()}))
    return found


def _read(reader: TextReader, texts: list[str], most_tokens: int) -> TextVectors:
    """Texts of similar length go through the model together, so that little of a pass is padding."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        places = order[start : start + TEXTS_AT_ONCE]
        given = [texts[place] for place in places]
        readings = reader.read(given, last_tokens=most_tokens, sequences=SEQUENCES)
        for place, reading in zip(places, readings, strict=True):
            found[place] = _direction_and_length(reading.vectors)
    directions, lengths = zip(*(found[place] for place in range(len(texts))), strict=True)
    return TextVectors(torch.cat(directions), torch.cat(lengths), torch.tensor([len(each) for each in lengths]))


def _key(reader: TextReader, labelled: LabelledSet, most_tokens: int) -> str:
    """Identifies the texts and how they are read, so that a cache never answers for something else."""
    known = {
        "model": [reader.model.name, reader.model.revision, reader.model.dtype],
        "point": str(reader.point),
        "rules": asdict(reader.rules),
        "reading": [reader.block_length, reader.first, most_tokens],
        "texts": list(labelled.texts or ()),
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def _stored(path: Path, n_texts: int, width: int) -> TextVectors:
    try:
        tensors = load_tensors(path.read_bytes())
        found = TextVectors(**tensors)
        n_tokens = int(found.counts.sum())
        complete = len(found.counts) == n_texts and found.directions.shape == (n_tokens, width)
        complete = complete and found.lengths.shape == (n_tokens,)
    except Exception as problem:  # safetensors has errors of its own
        raise ValueError(f"{path} is not readable ({problem}); delete it and run again") from None
    if not complete:
        raise ValueError(f"{path} does not hold the activations of {n_texts} texts; delete it and run again")
    return found
