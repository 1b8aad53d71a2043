"""Schedules as pure functions of the step, which counts from 0."""


def alpha_at(step: int, alpha: float, warmup_steps: int) -> float:
    """Linear warm-up of the density penalty from 0, so that reconstruction comes first."""
    return alpha * min(1.0, step / warmup_steps) if warmup_steps else alpha


def mixing_density_at(step: int, steps: int, target: float) -> float:
    """Geometric decay from 1 to the target over the first half of training."""
    return float(target ** min(1.0, 2 * step / steps))


def is_mask_frozen(step: int, steps: int) -> bool:
    """Whether the support of C is fixed: during the last fifth of training."""
    return 5 * step >= 4 * steps
