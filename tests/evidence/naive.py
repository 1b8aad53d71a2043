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


def unit_vectors(stream: RandomStream) -> torch.Tensor:
    return stream.vectors / stream.vectors.norm(dim=1, keepdim=True)


def raw_values(ae: BilinearAutoencoder, stream: RandomStream) -> np.ndarray:
    """z of every token: x̃ᵀW̃x̃."""
    seen = ae.lens(unit_vectors(stream))
    return torch.stack([((seen @ ae.form(i)) * seen).sum(1) for i in range(ae.n_latents)]).numpy()


class NaiveCalibration(NamedTuple):
    """From the first tokens, straight from the definition."""

    mean: np.ndarray
    covariance: np.ndarray
    signs: np.ndarray
    rest: np.ndarray


def calibration(ae: BilinearAutoencoder, stream: RandomStream, settings: EvidenceSettings) -> NaiveCalibration:
    n = settings.n_calibration_tokens
    unit, values = unit_vectors(stream)[:n].double().numpy(), raw_values(ae, stream)[:, :n]
    middle = np.median(values, axis=1)
    away = values - middle[:, None]
    above = np.where(away > 0, away**2, 0).sum(1)
    signs = np.where((away**2).sum(1) - above > above, -1.0, 1.0)
    return NaiveCalibration(unit.mean(0), np.cov(unit.T, bias=True), signs, signs * middle)


def all_values(ae: BilinearAutoencoder, stream: RandomStream, settings: EvidenceSettings) -> np.ndarray:
    """sign·z − rest of every token."""
    known = calibration(ae, stream, settings)
    return known.signs[:, None] * raw_values(ae, stream) - known.rest[:, None]


def coordinates(ae: BilinearAutoencoder, stream: RandomStream, settings: EvidenceSettings) -> np.ndarray:
    """v of every token."""
    unit = unit_vectors(stream).double().numpy()
    if ae.lens.centre is not None:
        return unit - ae.lens.centre.double().numpy()
    mean = calibration(ae, stream, settings).mean
    m = mean / np.linalg.norm(mean)
    return unit - np.outer(unit @ m, m)


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
