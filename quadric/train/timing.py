"""How long a training step takes: three real steps on random tokens, extrapolated to the number of tokens."""

import time
from dataclasses import replace

import torch

from quadric.model.dictionary import Dictionary
from quadric.model.lens import affine_lens, token_moments
from quadric.model.settings import Bilinear, Composite, Settings
from quadric.train.cost import FormsStep, Phase
from quadric.train.learner import Learner
from quadric.train.settings import Cell, Training

FEWEST_TOKENS = 256
MOST_BYTES = 2**31
"""Memory that a step may take by prediction; larger ones are not tried."""
MOST_SECONDS = 5.0
"""Time that the matrix products of the three steps may take by prediction; longer ones are not tried."""


def measured_seconds(cell: Cell, training: Training, phase: Phase, d_model: int, rate: float) -> float | None:
    """Seconds of a step of a phase on this machine's CPU; None if it is too large to be tried.

    One step warms up, one is timed with an eighth of the tokens, and one with a quarter. The time for the rest of the
    tokens is extrapolated. What processes save each other follows from the FLOPs, since here is only one.

    Args:
        cell: what is trained.
        training: of the run.
        phase: which steps.
        d_model: width of the activations.
        rate: FLOPs per second of matrix products.
    """
    alone = replace(phase.size, n_processes=1)
    n_tokens = alone.n_tokens
    few = n_tokens if n_tokens < 2 * FEWEST_TOKENS else max(FEWEST_TOKENS, n_tokens // 8)
    tried = [replace(alone, n_tokens=n) for n in (few, few, min(n_tokens, 2 * few))]
    if tried[-1].state_bytes + tried[-1].working_bytes > MOST_BYTES:
        return None
    if sum(sum(each.flops().values()) for each in tried) > MOST_SECONDS * rate:
        return None
    learner = Learner(_dictionary(cell.settings, phase, d_model), cell.loss, training)
    learner.step_index = phase.first_step
    _, first, second = (_timed(learner, torch.randn(each.n_tokens, d_model)) for each in tried)
    more = tried[-1].n_tokens
    # Between a step that does not depend on the tokens and one that is proportional to them, whatever the noise.
    per_token = min(max(0.0, second - first) / max(1, more - few), second / more)
    seconds = second + per_token * (n_tokens - more)
    return seconds * sum(phase.size.flops().values()) / sum(alone.flops().values())


def _dictionary(settings: Settings, phase: Phase, d_model: int) -> Dictionary:
    """An untrained dictionary with as many entries as in the phase, and with weights that are quickly made."""
    if isinstance(settings, Composite) and isinstance(phase.size, FormsStep) and phase.first_step > 0:
        density = phase.size.n_entries / (settings.n_latents * settings.atoms)
        settings = replace(settings, atoms_per_latent=density * settings.atoms, initial_density=density)
    if isinstance(settings, Bilinear):
        settings = replace(settings, init="xavier")
    lens = affine_lens(token_moments(torch.randn(1024, d_model))) if settings.lens_name == "affine" else None
    return settings.build(d_model, lens=lens)


def _timed(learner: Learner, tokens: torch.Tensor) -> float:
    start = time.perf_counter()
    learner.step(tokens)
    return time.perf_counter() - start
