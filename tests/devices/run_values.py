"""Compute with dictionaries on a simulated device and on the CPU, in this process, and write where the two differ.

`python -m tests.devices.run_values CHARACTER REPORT`. Rows are given from the other device or as numpy arrays wherever
a public function takes rows: they are moved to the dictionary.
"""

import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import quadric
from quadric import geometry
from quadric.model.lens import token_moments
from quadric.studies.receptive_field import log_receptive_field_share
from tests.devices import simulated

D_MODEL = 12
SPARSE = quadric.Composite(n_latents=32, n_hidden=640, atoms_per_latent=4.0, initial_density=0.00625)
KINDS: dict[str, Any] = {
    "atomic": quadric.Atomic(n_latents=24),
    "atomic paper": quadric.Atomic(n_latents=24, lens="paper"),
    "composite": quadric.Composite(n_latents=16, n_hidden=32, atoms_per_latent=6.0),
    "composite crossing to CSR": quadric.Composite(n_latents=20, n_hidden=500, atoms_per_latent=3.0),
    "composite CSR": SPARSE,
    "quadratic": quadric.Quadratic(n_latents=16, n_hidden=32),
    "topk": quadric.TopK(n_latents=24, n_active=4),
    "batch_topk": quadric.BatchTopK(n_latents=24, n_active=4),
}
FORMS = ("composite", "composite CSR", "atomic paper")
"""Whose latents are forms; of one lens each."""


def rows(n: int = 600, seed: int = 0) -> Tensor:
    """Tokens with a mean, which no default device moves."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, D_MODEL, generator=generator) + torch.linspace(-1, 1, D_MODEL)


def fitted(kind: str, device: str) -> quadric.Dictionary:
    """A dictionary trained on this device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few steps
        return quadric.fit(rows(), KINDS[kind], steps=12, batch_tokens=200, device=device, progress=False)


Case = Callable[[Any, Any], Any]
"""From a dictionary and rows to what both devices must agree in."""


def changed_by_gradient(ae: Any, x: Any) -> Any:
    loss = ae.loss(x)
    loss.total.backward()
    return [loss.total.detach(), *(each.grad for each in ae.parameters())]


def moved_in_lens(ae: Any, x: Any) -> Any:
    latent = ae.latent(3) if ae.lens.kind == "affine" else ae.latent(3, centre=torch.full((D_MODEL,), 0.1))
    low, high = latent.value(x).quantile(torch.tensor([0.4, 0.6], dtype=torch.float64).to(latent.value(x).device))
    return [
        latent.value(x),
        latent.project(x, to=float(low + high) / 2, unreachable="nearest"),
        latent.ablate(x),
        latent.scale(x, by=0.5),
        latent.slide(x, by=0.2),
        latent.reach(x),
        latent.above(0.0)(x),
    ]


def reloaded(ae: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        ae.save_pretrained(folder)
        loaded = quadric.load(folder)
    assert {each.device.type for each in loaded.tensors().values()} == {"cpu"}
    return list(loaded.tensors().values())


EVERY: dict[str, Case] = {
    "weights": lambda ae, x: list(ae.tensors().values()),
    "encode": lambda ae, x: ae.encode(x),
    "call": lambda ae, x: ae(x),
    "prepare": lambda ae, x: ae.prepare(x),
    "rebuild": lambda ae, x: ae.rebuild(x),
    "rebuild_by_rank_one": lambda ae, x: ae.rebuild_by_rank_one(x),
    "error": lambda ae, x: ae.error(x),
    "density": lambda ae, x: ae.density(x),
    "loss and gradients": changed_by_gradient,
    "evaluate": lambda ae, x: json.dumps(quadric.evaluate(ae, x, progress=False).to_dict(), default=str),
    "evidence": lambda ae, x: quadric.collect_evidence(ae, x, points=20, progress=False).calibration.linear,
    "latents": lambda ae, x: quadric.latents(ae).to_pandas().to_csv(),
    "statistics": lambda ae, x: geometry.statistics(ae, centre=token_moments(rows())).columns(),
    "neighbours": lambda ae, x: geometry.neighbours(ae, count=3),
    "redundancy": lambda ae, x: geometry.redundancy(ae),
    "description_length": lambda ae, x: geometry.description_length(ae).alone,
    "read": lambda ae, x: geometry.read(ae, 3).eigenvalues,
    "spectrum": lambda ae, x: geometry.spectrum(ae, 3).eigenvalues,
    "receptive field": lambda ae, x: log_receptive_field_share(geometry.spectrum(ae, 3).eigenvalues, 0.1, 64),
    "frobenius": lambda ae, x: geometry.frobenius_similarity(ae, ae),
    "hungarian": lambda ae, x: geometry.hungarian_similarity(ae, ae, sign_free=True).similarity,
    "compare with a copy on the CPU": lambda ae, x: float(geometry.compare(ae, deepcopy(ae).cpu()).agreement.frobenius),
    "show": lambda ae, x: quadric.show(ae, 3, torch.as_tensor(x).cpu())._repr_html_(),
    "save and load": lambda ae, x: reloaded(ae),
}
OF_FORMS: dict[str, Case] = {
    "kernel": lambda ae, x: ae.kernel(),
    "form": lambda ae, x: ae.form(3),
    "reconstruct": lambda ae, x: ae.reconstruct(x),
    "without_mean": lambda ae, x: geometry.frobenius_similarity(
        *[geometry.without_mean(ae, None if ae.lens.kind == "affine" else torch.ones(D_MODEL))] * 2
    ),
    "interventions": moved_in_lens,
}
"""Of kinds whose latents are forms."""


OF_ROWS = ("encode", "call", "prepare", "rebuild", "error", "density", "evaluate", "evidence", "interventions")
"""Cases that are also run with rows of the device and with numpy arrays."""


def plain(value: Any) -> Any:
    """Results as lists of numpy arrays and plain values, to be compared."""
    if isinstance(value, Tensor):
        return value.detach().cpu().to_dense().numpy()
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def difference(here: Any, there: Any) -> float:
    """The largest relative difference of numbers; 0 where everything is the same to the bit."""
    if isinstance(here, list):
        assert len(here) == len(there)
        return max((difference(one, other) for one, other in zip(here, there, strict=True)), default=0.0)
    if isinstance(here, np.ndarray) and here.dtype.kind == "f":
        if np.array_equal(here, there, equal_nan=True):
            return 0.0
        scale = np.abs(here[np.isfinite(here)]).max(initial=1e-30)
        return float(np.abs(here.astype(np.float64) - there).max() / scale)
    if isinstance(here, float):
        return 0.0 if here == there or (here != here and there != there) else abs(here - there) / max(abs(here), 1e-30)
    if isinstance(here, str) and here != there:
        return float("inf")
    return 0.0 if np.array_equal(here, there) else float("inf")


def main(character: simulated.Character, report: str) -> None:
    """Run every case on every kind."""
    device = simulated.install(character)
    found: dict[str, Any] = {}
    x = rows(300, seed=1)
    given: dict[str, Any] = {"rows of the CPU": x, "rows of the device": x.to(device), "numpy": x.numpy()}
    for kind in KINDS:
        host = fitted(kind, "cpu")
        try:
            other = fitted(kind, "auto")
            assert next(other.parameters()).device == device, "fit returns the dictionary on the device"
        except Exception:
            found[f"{kind}: fit"] = traceback.format_exc()
            continue
        cases = EVERY | (OF_FORMS if not host.is_linear else {})
        for name, case in cases.items():
            expected = plain(case(deepcopy(host), x))
            for which, tokens in given.items():
                if which != "rows of the CPU" and name not in OF_ROWS:
                    continue
                before = simulated.operations()
                try:
                    found[f"{kind}: {name}, {which}"] = difference(expected, plain(case(deepcopy(other), tokens)))
                except Exception:
                    found[f"{kind}: {name}, {which}"] = traceback.format_exc()
                assert simulated.operations() > before, name
    Path(report).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
