"""How long a training step takes: three real steps on random tokens, extrapolated by their FLOPs."""

import time
from dataclasses import replace

import torch

from quadric.model.dictionary import Dictionary
from quadric.model.lens import affine_lens, token_moments
from quadric.model.settings import Bilinear, Composite, Settings
from quadric.train.cost import FormsStep, Phase
from quadric.train.learner import Learner
from quadric.train.settings import Cell, Training

STEPS = 3
FEWEST_TOKENS = 256
MOST_BYTES = 2**31
"""Memory that a step may take by prediction; larger ones are not tried."""
MOST_SECONDS = 15.0
"""Time that the matrix products of these steps may take by prediction; longer ones are not tried."""


def measured_seconds(cell: Cell, training: Training, phase: Phase, d_model: int, rate: float) -> float | None:
    """Seconds of a step of a phase on this machine's CPU; None if it is too large to be tried.

    One step warms up and two are timed, with a quarter of the tokens where there are many. The faster one stands for
    the whole step by the ratio of their FLOPs, which are linear in the tokens and say what processes share.

    Args:
        cell: what is trained.
        training: of the run.
        phase: which steps.
        d_model: width of the activations.
        rate: FLOPs per second of matrix products.
    """
    n_tokens = phase.size.n_tokens
    tried = replace(phase.size, n_processes=1, n_tokens=min(n_tokens, max(FEWEST_TOKENS, n_tokens // 4)))
    flops = sum(tried.flops().values())
    if tried.state_bytes + tried.working_bytes > MOST_BYTES or STEPS * flops > MOST_SECONDS * rate:
        return None
    learner = Learner(_dictionary(cell.settings, phase, d_model), cell.loss, training)
    learner.step_index = phase.first_step
    _, *times = (_timed(learner, torch.randn(tried.n_tokens, d_model)) for _ in range(STEPS))
    return min(times) * sum(phase.size.flops().values()) / flops


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
