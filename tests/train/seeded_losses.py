"""Train every kind of dictionary for a few seeded steps and print each step's error and density, to the bit.

Run as a program, so that no library loaded by another test can change how floats are added:

    python -m tests.train.seeded_losses [--record]
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from quadric.model.lens import AffineLens, affine_lens, token_moments
from quadric.train import AutoencoderConfig, Learner, TrainingConfig

RECORDED = Path(__file__).with_suffix(".json")
D_MODEL, N_TOKENS, STEPS = 64, 512, 16

# Composite runs cross from dense to sparse C at about half their steps. 512 latents are enough for the blocked
# symmetric products; the smaller sizes take the unblocked path.
RUNS: dict[str, dict[str, Any]] = {
    "atomic": {"prior": "atomic", "n_latents": 512},
    "composite": {"prior": "composite", "n_latents": 512, "mixing_density": 0.002},
    "composite small": {"prior": "composite", "n_latents": 96, "mixing_density": 0.005},
    "composite dense": {"prior": "composite", "n_latents": 96, "mixing_density": 0.2},
    "composite printed tied": {
        "prior": "composite", "n_latents": 96, "mixing_density": 0.005, "symmetric": False, "tied": True,
    },
    "composite affine": {
        "prior": "composite", "n_latents": 96, "mixing_density": 0.005, "lens": "affine", "overlap_penalty": 0.01,
    },
    "composite top": {
        "prior": "composite", "n_latents": 96, "mixing_density": 0.005, "lens": "affine", "overlap_penalty": 0.01,
        "alpha": 0.05, "top_latents": 8,
    },
    "quadratic": {"prior": "quadratic", "n_latents": 256},
    "topk": {"kind": "topk", "n_latents": 256, "n_active": 8, "alpha": 0.0},
    "batch_topk": {"kind": "batch_topk", "n_latents": 256, "n_active": 8, "alpha": 0.0},
}  # fmt: skip


def seeded_losses() -> dict[str, list[tuple[str, str]]]:
    """(error, density) of every step of every run, as hexadecimal floats."""
    torch.set_num_threads(1)
    training = TrainingConfig(steps=STEPS, alpha_warmup_steps=4)
    losses = {}
    for name, settings in RUNS.items():
        config = AutoencoderConfig(hook_point="rows", seed=3, **settings)
        learner = Learner(config.build(D_MODEL, _lens(config)), config, training)
        tokens = torch.Generator().manual_seed(7)
        reports = [learner.step(_batch(tokens)) for _ in range(STEPS)]
        losses[name] = [(each.error.hex(), each.density.hex()) for each in reports]
    return losses


def _lens(config: AutoencoderConfig) -> AffineLens | None:
    if config.lens == "paper":
        return None
    return affine_lens(token_moments(_batch(torch.Generator().manual_seed(8))))


def _batch(generator: torch.Generator) -> torch.Tensor:
    """Rows with an offset and unequal directions, so that every term of the loss matters."""
    scales = torch.linspace(0.2, 2.0, D_MODEL)
    return torch.randn(N_TOKENS, D_MODEL, generator=generator) * scales + 0.5


def arithmetic() -> str:
    """Identifies how this machine adds floats: bits can be compared only where the recorded sums come out the same."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(300, 300, generator=generator) for _ in range(2))
    sums = [(left @ right).sum().item(), (left.double() @ right.double()).sum().item(), left.exp().sum().item()]
    return " ".join([torch.__version__, *(float(each).hex() for each in sums)])


if __name__ == "__main__":
    found = {"arithmetic": arithmetic(), "losses": seeded_losses()}
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    else:
        print(json.dumps(found))
