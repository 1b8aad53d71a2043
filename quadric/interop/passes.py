"""One more pass over the activations behind evidence: the value of every latent on every token.

Evidence keeps the strongest tokens of each latent; other tools want to know the value on their neighbours too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64

from quadric._io.progress import Progress, no_progress
from quadric.data.batches import ActivationStream
from quadric.evidence import Evidence, TextSource
from quadric.evidence.collecting import opened_batches
from quadric.evidence.streams import hook_point_here, provenance_here
from quadric.model import Dictionary

Array = np.ndarray

Side = Literal["positive", "negative"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read: activations in the order of their text, and the text itself."""

    stream: ActivationStream
    text: TextSource
    n_tokens: int
    """Tokens to read at most."""
    on_progress: Progress = no_progress


class TokenValues(NamedTuple):
    """The values of all latents on some tokens."""

    sequences: Int64[Array, " n"]
    """Number of each token's sequence in the stream."""
    positions: Int64[Array, " n"]
    values: Float32[Array, "n k"]


def away_from_rest(evidence: Evidence, side: Side) -> Callable[[Float32[Array, "n k"]], Float32[Array, "n k"]]:
    """From latents z to how far they are from rest on one side: sign·z − rest, or its negative.

    W and −W are the same dictionary; the evidence's sign makes the side with more energy positive. Most tokens have a z
    near its median, the value at rest, which an affine lens puts anywhere.
    """
    known, factor = evidence.calibration, np.float32(1 if side == "positive" else -1)
    return lambda values: factor * (values * known.signs - known.rest)


def token_values(autoencoder: Dictionary, reading: Reading) -> Iterator[TokenValues]:
    """Read the stream once, in order: latents of each batch of tokens, at the scale that the dictionary reads."""
    if autoencoder.training:
        raise ValueError("the autoencoder is in training mode, where latents may depend on the batch; call .eval()")
    provenance_here(autoencoder, reading.stream)  # raises where they do not belong together
    hook_point, done = hook_point_here(autoencoder, reading.stream), 0
    with opened_batches(reading.stream) as batches:
        for batch in batches:
            batch = batch.rows(0, reading.n_tokens - done)
            tokens = batch.activations[hook_point].to(next(autoencoder.parameters()).device)
            with torch.no_grad():  # here and not around the whole, which yields
                values = autoencoder.encode(autoencoder.prepare(tokens)).float().cpu().numpy()
            done += len(batch)
            reading.on_progress("activations", done, reading.n_tokens, "tokens")
            yield TokenValues(
                batch.sequences.cpu().numpy().astype(np.int64), batch.positions.cpu().numpy().astype(np.int64), values
            )
            if done >= reading.n_tokens:
                return
