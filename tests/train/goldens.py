"""What training computes, pinned down: short seeded runs of every kind of dictionary, with their recorded results.

Every case is a dict of numbers and words. It is trained for a few steps, in float32 with the package's own initial
weights and in float64 with weights that are drawn here. A result holds

    steps      error and density of every step
    tensors    sum and sum of absolute values of every tensor that is saved, after the last step
    path       how the error was computed, and from when on C was stored by its entries

with all floats in hexadecimal. `test_goldens.py` compares results with `goldens.json`: float32 to the bit on machines
that add floats as the recording one did, float64 to a tight tolerance on all machines. If a change only reorders sums,
float32 differs and float64 does not; if float64 differs too, the change computes something else.

Muon and AdamW divide by the size of gradients, so a wrong factor of all gradients is seen only through AdamW's epsilon,
in the offset. Tests of gradients are elsewhere: `tests/model`, and `test_distributed.py` for two processes.

    python -m tests.train.goldens                     print the results of all cases
    python -m tests.train.goldens NAME ...            print those of some
    python -m tests.train.goldens --record            record all cases anew
    python -m tests.train.goldens --record NAME ...   record some, leaving all other lines of the file as they are

It runs as a program of its own, so that no library that another test loads can change how floats are added. Only the
last section of this file, from `_Run` on, uses the package: after a change of the interface, rewrite that section, and
the recorded data stays valid.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from math import sqrt
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from quadric.model import BilinearAutoencoder, Density, Dictionary, Error, Mean, Overlap, Settings, Term, settings
from quadric.model.fast import kernel, latents, newton_schulz, step
from quadric.model.fast.sparse import Sparse
from quadric.model.fast.step import path_of
from quadric.model.lens import affine_lens, token_moments
from quadric.model.settings import settings_class
from quadric.run.fitting import continued
from quadric.train import Learner, Training
from quadric.train.distributed import join_job, leave_job
from tests import fresh_process

RECORDED = Path(__file__).with_suffix(".json")
PROGRAM = "tests.train.goldens"

Case = dict[str, Any]
Result = dict[str, Any]

DEFAULTS: Case = {
    "d": 64,
    "latents": 96,
    "atoms": None,  # as many as latents if atomic, else twice as many
    "atoms_per_latent": None,  # composite: at the end
    "initial_density": 1.0,  # composite: share of C at the start
    "active": None,  # topk and batch_topk
    "symmetric": True,
    "tied": False,
    "init": "orthogonal",
    "lens": "paper",
    "seed": 3,
    # Loss: error + alpha · density + overlap · overlap penalty + mean · mean penalty.
    "alpha": 0.3,
    "overlap": 0.0,
    "strongest": None,  # number of latents that the error reconstructs each token from; None for all
    "mean": 0.0,
    # Training.
    "steps": 6,
    "tokens": 512,  # per batch; a list gives every step its own number
    "token_type": None,  # of the batches; by default that of the parameters
    "alpha_warmup": 2,
    "learning_rate": 0.1,
    "learning_rate_decay": 0.0,
    "momentum": 0.95,
    "gradients": "auto",
    # Thresholds of the package, lowered so that small sizes take the paths of large ones.
    "block_size": None,
    "largest_gram": None,  # atoms up to which the Gram matrix is held in memory
    "most_kept": None,  # numbers up to which activations and Gram factors are kept for the backward pass
    "most_pairs": None,  # pairs of entries of C up to which sparse Muon runs its rounds
    "pairs_at_once": None,
    # Continue from the weights of another case after so many of its steps: {"case", "steps", "saved"}. "saved" says
    # whether they go through `tensors()`, as in a folder, or are those in memory.
    "start": None,
}

ALL_TERMS = {"alpha": 0.05, "overlap": 0.1, "strongest": 8, "mean": 1.0}
TERMS: dict[str, Case] = {
    "error alone": {"alpha": 0.0},
    "density": {},
    "overlap": {"alpha": 0.0, "overlap": 0.1},
    "strongest": {"alpha": 0.0, "strongest": 8},
    "mean": {"alpha": 0.0, "mean": 1.0},
    "all terms": ALL_TERMS,
}

ATOMIC: Case = {"kind": "atomic"}
QUADRATIC: Case = {"kind": "quadratic"}
DENSE: Case = {"kind": "composite", "atoms_per_latent": 38.4}
"""C is stored densely to the end."""
CROSSING: Case = {"kind": "composite", "atoms_per_latent": 1.8}
"""C is stored densely for half of the steps, and by its entries after that."""
SPARSE: Case = {"kind": "composite", "atoms": 400, "initial_density": 0.009, "atoms_per_latent": 2}
"""C starts with few entries and loses some."""
BILINEAR = {"atomic": ATOMIC, "crossing": CROSSING, "sparse": SPARSE, "quadratic": QUADRATIC}
LINEAR: dict[str, Case] = {
    "topk": {"kind": "topk", "latents": 256, "active": 8, "alpha": 0.0},
    "batch_topk": {"kind": "batch_topk", "latents": 256, "active": 8, "alpha": 0.0},
}
LIFTED: Case = {
    "kind": "composite", "d": 12, "latents": 120, "atoms": 800, "initial_density": 0.008, "atoms_per_latent": 3,
    "largest_gram": 100, "learning_rate": 0.03,
}  # fmt: skip
LIFTED_ATOMIC: Case = {**ATOMIC, "d": 8, "latents": 160, "largest_gram": 100}
"""The error is computed in the product space, as with more atoms than a Gram matrix in memory can have."""
SPARSE_900: Case = {**SPARSE, "latents": 900, "atoms": 1000, "atoms_per_latent": 4, "steps": 3}
VARYING = [512, 500, 700, 1100, 5, 257]
"""Tokens of each batch; a sparse C mixes 512 at once."""


def _changed(bases: dict[str, Case], words: str, **changes: Any) -> dict[str, Case]:
    """The cases with these changes, and words that name the changes."""
    return {f"{name} {words}": {**base, **changes} for name, base in bases.items()}


def _continuing(name: str, steps: int, saved: bool) -> Case:
    return {"alpha_warmup": 0, "start": {"case": name, "steps": steps, "saved": saved}}


CHANGES: dict[str, Case] = {
    **{f"{name} {term}": {**base, **changes} for name, base in BILINEAR.items() for term, changes in TERMS.items()},
    **{f"dense {term}": {**DENSE, **TERMS[term]} for term in ("density", "all terms")},
    **LINEAR,
    "crossing 16 steps": {**CROSSING, "steps": 16, "alpha_warmup": 4},
    "sparse from scattered dense": {**CROSSING, "initial_density": 0.2},
    "sparse without thinning": {**SPARSE, "atoms_per_latent": 3.6, "initial_density": 3.6 / 400},
    # Coordinates, kernels, initial weights.
    **_changed({"atomic": ATOMIC, "crossing": CROSSING}, "affine", lens="affine"),
    **_changed(BILINEAR, "affine all terms", lens="affine", **ALL_TERMS),
    **_changed(BILINEAR, "printed", symmetric=False),
    **_changed(BILINEAR, "tied", tied=True),
    "crossing printed tied all terms": {**CROSSING, "symmetric": False, "tied": True, **ALL_TERMS},
    "atomic printed affine all terms": {**ATOMIC, "symmetric": False, "lens": "affine", **ALL_TERMS},
    **_changed(BILINEAR, "xavier", init="xavier"),
    # Numbers of tokens and latents.
    **_changed(BILINEAR, "500 tokens", tokens=500),
    **_changed(BILINEAR | LINEAR, "varying tokens", tokens=VARYING),
    "sparse varying tokens all terms": {**SPARSE, "tokens": VARYING, **ALL_TERMS},
    "atomic 512 latents": {**ATOMIC, "latents": 512, "steps": 4},
    "atomic 900 latents all terms": {**ATOMIC, "latents": 900, "steps": 3, "tokens": 500, **ALL_TERMS},
    "crossing 512 latents": {**CROSSING, "latents": 512, "atoms": 600, "steps": 3, "atoms_per_latent": 4},
    "crossing 900 latents": {**CROSSING, "latents": 900, "atoms": 300, "steps": 4, "atoms_per_latent": 2},
    "quadratic 512 latents": {**QUADRATIC, "latents": 512, "atoms": 600, "steps": 2},
    "sparse 900 latents all terms": {**SPARSE_900, "tokens": 500, **ALL_TERMS},
    # Activations and Gram factors computed again in the backward pass.
    **_changed(BILINEAR, "recomputed", most_kept=0),
    "sparse tied recomputed": {**SPARSE, "most_kept": 0, "tied": True, "tokens": 700},
    "sparse 900 latents recomputed": {**SPARSE_900, "most_kept": 0, "tokens": 700},
    # Blocks of G.
    **_changed(BILINEAR, "blocked", block_size=50),
    "atomic blocked mean": {**ATOMIC, "block_size": 60, "mean": 1.0},
    "crossing blocked mean": {**CROSSING, "block_size": 100, "mean": 1.0},
    "crossing blocked printed": {**CROSSING, "block_size": 100, "symmetric": False},
    "crossing blocked tied": {**CROSSING, "block_size": 100, "tied": True},
    "crossing blocked affine": {**CROSSING, "block_size": 100, "lens": "affine"},
    "quadratic large gram": {**QUADRATIC, "largest_gram": 100},
    # The product space.
    **{f"lifted {term}": {**LIFTED, **changes} for term, changes in TERMS.items()},
    "lifted overlap and mean": {**LIFTED, "overlap": 0.1, "mean": 1.0},
    "lifted printed": {**LIFTED, "symmetric": False, "overlap": 0.1},
    "lifted printed strongest": {**LIFTED, "symmetric": False, "strongest": 8},
    "lifted tied": {**LIFTED, "tied": True, "overlap": 0.1},
    "lifted tied strongest": {**LIFTED, "tied": True, "strongest": 8},
    "lifted affine all terms": {**LIFTED, "lens": "affine", **ALL_TERMS},
    "lifted varying tokens": {**LIFTED, "tokens": VARYING, **ALL_TERMS},
    "lifted wide overlap": {**LIFTED, "d": 40, "overlap": 0.1, "steps": 3},
    "lifted wide strongest": {**LIFTED, "d": 40, "strongest": 4, "steps": 3},
    "lifted atomic overlap": {**LIFTED_ATOMIC, "overlap": 0.1},
    "lifted atomic all terms": {**LIFTED_ATOMIC, **ALL_TERMS},
    "lifted after blocks": {**LIFTED, "initial_density": 0.5, "atoms_per_latent": 4},
    # Optimizers.
    "sparse rows scaled": {**SPARSE, "most_pairs": 0},
    "sparse pairs in blocks": {**SPARSE, "pairs_at_once": 300},
    **_changed({"crossing": CROSSING, "sparse": SPARSE, "topk": LINEAR["topk"]}, "decay", learning_rate_decay=0.5),
    "crossing slow": {**CROSSING, "learning_rate": 0.01, "momentum": 0.8},
    **_changed(BILINEAR, "bfloat16 gradients", gradients="bfloat16"),
    "crossing bfloat16 tokens": {**CROSSING, "token_type": "bfloat16"},
    # Training continued from given weights, at full alpha from the first step.
    **{f"{name} continued": {**base, **_continuing(f"{name} density", 6, True)} for name, base in BILINEAR.items()},
    "crossing continued while dense": {**CROSSING, **_continuing("crossing density", 2, True)},
    "crossing continued in memory": {**CROSSING, **_continuing("crossing density", 2, False)},
    "topk continued": {**LINEAR["topk"], **_continuing("topk", 6, True)},
    "batch_topk continued": {**LINEAR["batch_topk"], **_continuing("batch_topk", 6, True)},
}  # fmt: skip
CASES: dict[str, Case] = {name: {**DEFAULTS, **changes} for name, changes in CHANGES.items()}

RESUMED = (
    ("atomic affine all terms", 3),
    ("crossing density", 2),  # dense before and after
    ("crossing density", 3),  # the step that stores C by its entries
    ("crossing density", 4),
    ("crossing affine all terms", 2),
    ("crossing tied", 2),
    ("crossing bfloat16 gradients", 2),
    ("crossing decay", 4),
    ("sparse density", 1),
    ("sparse all terms", 2),
    ("sparse without thinning", 3),
    ("quadratic all terms", 5),
    ("lifted after blocks", 2),
    ("lifted all terms", 2),
    ("topk", 3),
    ("batch_topk", 3),
)
"""Cases that are also saved before this step and continued by a new learner, which must change no bit."""

TOKENS_OF_FIRST = {"equal parts": 256, "unequal parts": 341}
TWO_PROCESSES: dict[str, tuple[str, str]] = {
    f"{name}, {parts}": (name, parts)
    for names, divisions in (
        (("atomic density", "crossing density", "topk", "crossing affine all terms"), tuple(TOKENS_OF_FIRST)),
        (("atomic all terms", "quadratic all terms", "sparse all terms", "sparse tied"), ("unequal parts",)),
        (("lifted all terms", "lifted overlap and mean", "crossing blocked mean"), ("unequal parts",)),
        (("crossing printed", "quadratic 512 latents", "crossing decay"), ("equal parts",)),
    )
    for name in names
    for parts in divisions
}
"""Cases that two processes train together, and how they divide every batch."""
KNOWN = {"cases": CASES, "two processes": TWO_PROCESSES}


def precisions(name: str) -> tuple[str, ...]:
    """The types that a case is trained in. float64 gains nothing where numbers are rounded to bfloat16, and does not
    depend on the package's initial weights."""
    case = CASES[name]
    is_rounded = "bfloat16" in (case["gradients"], case["token_type"])
    return ("float32",) if is_rounded or case["init"] == "xavier" else ("float32", "float64")


def results(names: list[str]) -> dict[str, Result]:
    """The result of every named case in every precision."""
    return {name: {precision: _trained(CASES[name], precision) for precision in precisions(name)} for name in names}


def resumed_results() -> dict[str, Result]:
    """Results of the cases of `RESUMED`, in float32."""
    return {f"{name}, {step}": _trained(CASES[name], "float32", resume_at=step) for name, step in RESUMED}


def results_of_two_processes(names: list[str]) -> dict[str, Result]:
    """The results of a job of two processes that train the named cases of `TWO_PROCESSES`."""
    processes = fresh_process.run_job(fresh_process.module(PROGRAM), "--process", *names)
    if any(process.returncode != 0 for process in processes):
        raise RuntimeError("\n".join(process.stderr for process in processes))
    return json.loads("".join(process.stdout for process in processes))  # only the first one prints


def _results_of_process(names: list[str], number: int) -> dict[str, Result]:
    """The results of one process of the job, which trains on its part of every batch."""
    all_results: dict[str, Result] = {}
    for name in names:
        case, parts = TWO_PROCESSES[name]
        first = TOKENS_OF_FIRST[parts]
        part = slice(first, None) if number else slice(first)
        all_results[name] = {precision: _trained(CASES[case], precision, part) for precision in precisions(case)}
    return all_results


def _trained(case: Case, precision: str, part: slice = slice(None), resume_at: int | None = None) -> Result:
    """Train a case on a part of every batch; `resume_at` is a step before which it is saved and resumed."""
    steps, paths = [], []
    with _lowered_thresholds(case):
        run = _Run(case, precision)
        for step, tokens in enumerate(_batches(case, precision)):
            if step == resume_at:
                run = run.resumed()
            steps.append([value.hex() for value in run.step(tokens[part])])
            paths.append(run.path())
    tensors = {name: _sums(value.detach().double()) for name, value in sorted(run.tensors().items())}
    return {"steps": steps, "path": " > ".join(path for path, _ in groupby(paths)), "tensors": tensors}


def _sums(values: Tensor) -> list[str]:
    return [values.sum().item().hex(), values.abs().sum().item().hex()]


def _batches(case: Case, precision: str, seed: int = 7) -> Iterator[Tensor]:
    """Rows with an offset and unequal directions, so that every term of the loss matters.

    They are drawn in float64 and rounded, because draws in float32 differ between machines.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = case["tokens"] if isinstance(case["tokens"], list) else [case["tokens"]] * case["steps"]
    scales = torch.linspace(0.2, 2.0, case["d"], dtype=torch.float64)
    for size in sizes:
        rows = torch.randn(size, case["d"], generator=generator, dtype=torch.float64) * scales + 0.5
        yield rows.to(getattr(torch, case["token_type"] or precision))


def _drawn(tensors: dict[str, Tensor], n_latents: int) -> dict[str, Tensor]:
    """Initial weights in float64 that are the same on every machine, in place of the trained ones of these tensors.

    The package's own are factors of a QR decomposition in float32, which rounds differently on other machines. Scales
    are about the package's, except that vectors, which it starts at zero, get small numbers.
    """
    generator = torch.Generator().manual_seed(11)
    drawn = {name: value.double() if value.is_floating_point() else value for name, value in sorted(tensors.items())}
    for name, value in drawn.items():
        if value.ndim == 0 or not value.is_floating_point() or name.startswith("lens_"):
            continue
        scale = 1 / sqrt(max(value.shape)) if value.ndim == 2 else 0.01
        if name == "mixing_values":
            scale = sqrt(n_latents / len(value))
        drawn[name] = scale * torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return drawn


def arithmetic() -> str:
    """Identifies how this machine adds floats: bits can be compared only where the recorded sums come out the same."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(300, 300, generator=generator) for _ in range(2))
    products = [
        left @ right,
        left.double() @ right.double(),
        left.bfloat16() @ right.bfloat16(),
        left[:96, :64] @ right[:64],
    ]
    others = [left.exp(), torch.linalg.qr(left).Q.abs(), torch.segment_reduce(left, "sum", lengths=torch.tensor([300]))]
    sums = [value.double().sum().item().hex() for value in products + others]
    return hashlib.sha256(" ".join([torch.__version__, *sums]).encode()).hexdigest()[:12]


def recorded() -> dict[str, dict[str, Result]]:
    """The recorded results of cases and of two processes."""
    return json.loads(RECORDED.read_text())


def _record(results_now: dict[str, dict[str, Result]], keeps_others: bool) -> None:
    """Write results to the file, one line per case in the order of the cases here."""
    before = recorded() if keeps_others and RECORDED.exists() else {section: {} for section in KNOWN}
    sections = []
    for section, known in KNOWN.items():
        now = {name: {"arithmetic": arithmetic(), **result} for name, result in results_now[section].items()}
        kept = {name: result for name, result in (before[section] | now).items() if name in known}
        lines = [f'"{name}": {json.dumps(kept[name], separators=(",", ":"))}' for name in known if name in kept]
        sections.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
    RECORDED.write_text("{\n" + ",\n".join(sections) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train short seeded runs, and print or record their results.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; by default all")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RECORDED.name}")
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)  # one process of a job of two
    parser.add_argument("--one-process", action="store_true", help=argparse.SUPPRESS)  # what one process can train
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in CASES.keys() | TWO_PROCESSES.keys()]:
        parser.error(f"no case {unknown[0]!r}; the cases are {', '.join([*CASES, *TWO_PROCESSES])}")
    torch.set_num_threads(1)
    if options.process:
        _run_process(options.names)
    elif options.one_process:
        outcome = {"cases": results(list(CASES)), "resumed": resumed_results()}
        print(json.dumps({"arithmetic": arithmetic(), **outcome}))
    else:
        single, double = (
            [name for name in known if name in options.names or not options.names] for known in KNOWN.values()
        )
        chosen = {"cases": results(single), "two processes": results_of_two_processes(double) if double else {}}
        if options.record:
            _record(chosen, keeps_others=bool(options.names))
        else:
            print(json.dumps(chosen))


# The adapter: from here on, and only here, the package is used.


class _Run:
    """One case in training: steps, and what is saved after them."""

    def __init__(self, case: Case, precision: str) -> None:
        self.case, self.precision = case, precision
        self.learner = _learner(case, precision)

    def step(self, tokens: Tensor) -> tuple[float, float]:
        """Error and density of one step on one batch."""
        report = self.learner.step(tokens)
        return report["error"], report["density"]

    def tensors(self) -> dict[str, Tensor]:
        return self.learner.dictionary.tensors()

    def path(self) -> str:
        """How the error is computed, and whether C is stored by its entries: "kernel", "blocked", "lifted sparse" …"""
        dictionary = self.learner.dictionary
        if not isinstance(dictionary, BilinearAutoencoder):
            return "linear"
        return path_of(dictionary, self.case["strongest"]) + " sparse" * isinstance(dictionary.mixing, Sparse)

    def resumed(self) -> "_Run":
        """A new run with the saved state of this one. It starts from other weights, so that all come from the state."""
        state = {name: value.clone() for name, value in self.learner.state().items()}
        other = _Run({**self.case, "seed": self.case["seed"] + 1}, self.precision)
        other.learner.restore(state, self.learner.step_index)
        return other


def _learner(case: Case, precision: str) -> Learner:
    dictionary = _initial(case, precision) if case["start"] is None else _continued(case["start"], precision)
    dictionary.block_size = case["block_size"]  # read by bilinear ones only
    training = Training(
        steps=case["steps"],
        learning_rate=case["learning_rate"],
        learning_rate_decay=case["learning_rate_decay"],
        momentum=case["momentum"],
        gradient_dtype=case["gradients"],
    )
    return Learner(dictionary, _loss(case), training)


def _loss(case: Case) -> list[Term] | None:
    if case["active"] is not None:
        return None
    mean = [Mean(case["mean"])] if case["mean"] else []
    overlap = [Overlap(case["overlap"])] if case["overlap"] else []
    return [*mean, Error(top=case["strongest"]), Density(case["alpha"], warmup=case["alpha_warmup"]), *overlap]


def _settings(case: Case) -> Settings:
    kind = settings_class(case["kind"])
    if case["active"] is not None:
        return kind(n_latents=case["latents"], n_active=case["active"])
    changes: dict[str, Any] = {} if case["kind"] == "atomic" else {"n_hidden": case["atoms"]}
    if case["kind"] == "composite":
        changes |= {"atoms_per_latent": case["atoms_per_latent"], "initial_density": case["initial_density"]}
    return kind(
        n_latents=case["latents"],
        symmetric=case["symmetric"],
        same_factors=case["tied"],
        init=case["init"],
        lens=case["lens"],
        **changes,
    )


def _initial(case: Case, precision: str) -> Dictionary:
    lens = None
    if case["lens"] == "affine":
        lens = affine_lens(token_moments(next(_batches(case, precision, seed=5 + case["seed"]))))
    dictionary = _settings(case).build(case["d"], lens=lens, seed=case["seed"])
    return dictionary if precision == "float32" else _with(dictionary, _drawn(dictionary.tensors(), case["latents"]))


def _continued(start: Case, precision: str) -> Dictionary:
    case = CASES[start["case"]]
    run = _Run(case, precision)
    for tokens in islice(_batches(case, precision), start["steps"]):
        run.step(tokens)
    dictionary = run.learner.dictionary
    dictionary = _with(dictionary, dictionary.tensors()) if start["saved"] else dictionary
    return continued(dictionary)  # as `fit` does


def _with(dictionary: Dictionary, tensors: dict[str, Tensor]) -> Dictionary:
    """A dictionary with these settings and other weights, in their precision, as if loaded from a folder."""
    copies = {name: value.detach().clone() for name, value in tensors.items()}
    return dictionary.settings.restore(dictionary.d_model, copies, seed=dictionary.seed)


@contextmanager
def _lowered_thresholds(case: Case) -> Iterator[None]:
    places = {
        "largest_gram": [(step, "LARGEST_KERNEL"), (settings, "LARGEST_KERNEL")],
        "most_kept": [(kernel, "MOST_KEPT"), (latents, "MOST_KEPT")],
        "most_pairs": [(newton_schulz, "MOST_PAIRS")],
        "pairs_at_once": [(newton_schulz, "PAIRS_AT_ONCE")],
    }
    with ExitStack() as stack:
        for threshold, constants in places.items():
            for module, name in constants if case[threshold] is not None else ():
                stack.enter_context(mock.patch.object(module, name, case[threshold]))
        yield


def _run_process(names: list[str]) -> None:
    """Train this process's part of every batch, in a job of two; the first process prints the results."""
    processes = join_job("cpu")
    all_results = _results_of_process(names, processes.number)
    if processes.is_first:
        print(json.dumps(all_results))
    leave_job()


if __name__ == "__main__":
    from quadric.__main__ import leave

    main()
    leave(0)  # in a job it ends the process at once: destructors of gloo's threads sometimes abort it
