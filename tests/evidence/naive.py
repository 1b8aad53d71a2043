"""What evidence is, token by token and latent by latent, from its definition."""

import math
from typing import NamedTuple

import numpy as np
import torch

from quadric import BilinearAutoencoder
from quadric.evidence import EvidenceSettings
from quadric.evidence.reservoir import latent_counters, pair_hashes, token_counters
from tests.evidence.streams import RandomStream, RandomText


class NaivePoint(NamedTuple):
    sequence: int
    position: int
    value: float


def all_values(ae: BilinearAutoencoder, stream: RandomStream) -> np.ndarray:
    unit = stream.vectors / stream.vectors.norm(dim=1, keepdim=True)
    return torch.stack([((unit @ ae.form(i)) * unit).sum(1) for i in range(ae.n_latents)]).numpy()


def keys(
    values: np.ndarray, stream: RandomStream, latent: int, n_latents: int, settings: EvidenceSettings
) -> list[float]:
    places = (stream.sequences << 20) | stream.positions
    hashes = pair_hashes(
        latent_counters(settings.seed, n_latents)[latent : latent + 1], token_counters(settings.seed, places)
    )
    return [
        -math.log(1 - (int(number) + 0.5) / 2**32) / (abs(float(value)) + settings.epsilon) ** 4
        for number, value in zip(hashes[0], values[latent], strict=True)
    ]


def draw(values: np.ndarray, stream: RandomStream, latent: int, settings: EvidenceSettings) -> list[NaivePoint]:
    """The n_points smallest keys, strongest first."""
    order = np.argsort(keys(values, stream, latent, len(values), settings))[: settings.n_points]
    return sorted((_point(values, stream, latent, t) for t in order), key=lambda point: -abs(point.value))


def contexts(
    values: np.ndarray, stream: RandomStream, text: RandomText, latent: int, sign: int, settings: EvidenceSettings
) -> list[NaivePoint]:
    """The strongest tokens, one a window."""
    found: dict[tuple[int, ...], NaivePoint] = {}
    for t in np.argsort(-sign * values[latent], kind="stable"):
        point = _point(values, stream, latent, t)
        if sign * point.value > 0:
            found.setdefault(_window(text, point, settings.window), point)
    return list(found.values())[: settings.n_contexts]


def _point(values: np.ndarray, stream: RandomStream, latent: int, t: int) -> NaivePoint:
    return NaivePoint(int(stream.sequences[t]), int(stream.positions[t]), float(values[latent, t]))


def _window(text: RandomText, point: NaivePoint, reach: int) -> tuple[int, ...]:
    tokens = text.tokens[point.sequence]
    places = range(point.position - reach, point.position + reach + 1)
    return tuple(int(tokens[p]) if 0 <= p < len(tokens) else -1 for p in places)
