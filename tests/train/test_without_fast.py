"""With `quadric/model/fast` taken out, every kind still trains, on the plain paths, to nearly the same losses.

A composite C of few entries stays masked there: it starts with the largest entries of a random matrix, and Muon updates
all of it rather than its entries alone. Losses are then only close.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_process import ROOT

pytestmark = pytest.mark.slow

# Losses drift apart once rounding has tipped the choice of a token's strongest latents: a few steps are compared.
TRAINED = """
import importlib.util, json, torch, quadric
from quadric.model import Mean, load_pretrained
from quadric.train import Learner, Training

torch.set_num_threads(1)
x = torch.randn(256, 16, generator=torch.Generator().manual_seed(0)) + torch.linspace(0, 1, 16)
kinds = {
    "atomic": quadric.Atomic(n_latents=40),
    "same factors": quadric.Atomic(n_latents=40, same_factors=True, lens="paper"),
    "composite": quadric.Composite(n_latents=40, atoms_per_latent=0.4),
    "printed": quadric.Composite(n_latents=40, atoms_per_latent=0.4, symmetric=False, lens="paper"),
    "sparse start": quadric.Composite(n_latents=60, n_hidden=600, atoms_per_latent=3.0, initial_density=0.009),
    "quadratic": quadric.Quadratic(n_latents=40),
    "topk": quadric.TopK(n_latents=40, n_active=4),
    "batch_topk": quadric.BatchTopK(n_latents=40, n_active=4),
}
found = {"has fast": importlib.util.find_spec("quadric.model.fast") is not None}
for name, kind in kinds.items():
    losses = []
    ae = quadric.fit(
        x, kind, loss=[Mean(0.1), *kind.default_loss()] if "top" not in name else None, steps=6, batch_tokens=128,
        device="cpu", progress=False, training=quadric.Training(learning_rate=0.03, learning_rate_decay=0.0),
        callbacks=[lambda learner: losses.append(learner.report["error"])],
    )
    ae.save_pretrained("stored")
    found[name] = [*losses, float(load_pretrained("stored").error(x).mean())]
print(json.dumps(found))
"""


STEPS_ALIKE = {"composite": 4, "printed": 4, "sparse start": 0}
"""Losses until C is stored by its entries; those of the other kinds are all alike."""


def trained(package: Path, folder: Path) -> dict:
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TRAINED], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kind_trains_without_the_fast_paths(tmp_path):
    ignored = shutil.ignore_patterns("fast", "static", "__pycache__")
    shutil.copytree(ROOT / "quadric", tmp_path / "plain" / "quadric", ignore=ignored)
    plain, fast = trained(tmp_path / "plain", tmp_path / "one"), trained(ROOT, tmp_path / "other")
    assert (plain.pop("has fast"), fast.pop("has fast")) == (False, True)
    assert len(plain) == 8
    for name, losses in plain.items():
        alike = STEPS_ALIKE.get(name, 7)
        assert losses[:alike] == pytest.approx(fast[name][:alike], rel=1e-4), name
        assert losses[alike:] == pytest.approx(fast[name][alike:], rel=0.1), name
        assert len(set(losses)) == 7, f"{name} moves"
