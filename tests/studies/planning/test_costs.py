"""The predicted cost of a step against what is counted and what is measured."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.measure import counted_flops
from quadric import Atomic, BatchTopK, Composite, Quadratic, Settings, TopK
from quadric.model.fast import step as fast_step
from quadric.model.fast.sparse import Sparse
from quadric.model.lens import affine_lens, token_moments
from quadric.model.settings import KINDS
from quadric.model.terms import Density, Error, Overlap, Term
from quadric.studies.planning.costs import ALLOCATOR_OVERHEAD, FormsStep, Phase, half_share, phases
from quadric.train import Learner, Training
from quadric.train.checkpoints import Checkpoint, write_checkpoint

STEPS, FROZEN = 100, 90  # and a step at which the mask no longer changes


def composite(n_latents: int, n_hidden: int, density: float, **others: Any) -> Composite:
    """A dictionary that is as dense from the first step as at the end."""
    kept = {"atoms_per_latent": density * n_hidden, "initial_density": density}
    return Composite(n_latents=n_latents, n_hidden=n_hidden, init="xavier", **kept, **others)


def phase_of(settings: Settings, width: int, n_tokens: int, loss: tuple[Term, ...] | None = None, **more: int) -> Phase:
    (phase,) = phases(settings, settings.default_loss() if loss is None else loss, width, n_tokens, STEPS, **more)
    return phase


def learner_of(settings: Settings, width: int, loss: tuple[Term, ...] | None = None) -> Learner:
    lens = affine_lens(token_moments(torch.randn(99, width))) if settings.lens_name == "affine" else None
    learner = Learner(settings.build(width, lens=lens), loss, Training(steps=STEPS))
    learner.step_index = FROZEN
    return learner


@pytest.mark.parametrize(
    ("settings", "width", "n_tokens"),
    [
        (Atomic(n_latents=640, init="xavier"), 24, 96),
        (Atomic(n_latents=640, init="xavier", symmetric=False), 24, 96),
        (Atomic(n_latents=640, init="xavier", same_factors=True), 24, 96),
        (Quadratic(n_latents=300, n_hidden=700, init="xavier", lens="paper"), 300, 64),
        (Quadratic(n_latents=700, n_hidden=900, init="xavier"), 24, 64),  # with a penalty on the mean
        (composite(300, 600, 0.2), 24, 64),
        (composite(2048, 4096, 0.002), 24, 512),
        (composite(1024, 2048, 0.004), 64, 4500),  # computes activations twice
        (TopK(n_latents=256), 64, 128),
        (BatchTopK(n_latents=64), 512, 128),
    ],
    ids=str,
)
def test_predicted_operations_are_those_counted(settings: Settings, width: int, n_tokens: int) -> None:
    learner, tokens = learner_of(settings, width), torch.randn(n_tokens, width)
    learner.step(tokens)
    predicted = sum(phase_of(settings, width, n_tokens).size.flops().values())
    assert predicted == pytest.approx(counted_flops(lambda: learner.step(tokens)), rel=0.15)


@pytest.mark.parametrize("loss", [(Error(), Density()), (Error(top=5), Density()), (Error(top=5), Overlap())], ids=str)
@pytest.mark.parametrize("symmetric", [False, True])
def test_operations_in_the_product_space_are_those_counted(
    loss: tuple[Term, ...], symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_step, "LARGEST_KERNEL", 500)
    # Eight atoms in every latent, so that no block of latents is padded, and some latents in every atom.
    settings = composite(1600, 1000, 0.008, symmetric=symmetric, lens="paper")
    phase = phase_of(settings, 8, 200, loss)
    assert phase.size.path == "lifted"
    learner, tokens = learner_of(settings, 8, loss), torch.randn(200, 8)
    counted = counted_flops(lambda: learner.step(tokens))
    assert sum(phase.size.flops().values()) == pytest.approx(counted, rel=0.15)


def test_operations_in_blocks_are_those_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_step, "LARGEST_KERNEL", 500)
    settings, loss = Atomic(n_latents=600, lens="paper", init="xavier"), (Error(), Density())
    phase = phase_of(settings, 64, 100, loss)
    assert phase.size.path == "blocked"
    learner, tokens = learner_of(settings, 64, loss), torch.randn(100, 64)
    counted = counted_flops(lambda: learner.step(tokens))
    assert sum(phase.size.flops().values()) == pytest.approx(counted, rel=0.15)


def allocated_peak(work: Callable[[], object], trace: Path) -> int:
    """The most bytes that tensors made by `work` hold at once, counted from torch's record of every allocation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    profile.export_chrome_trace(str(trace))
    events = [event for event in json.loads(trace.read_bytes())["traceEvents"] if event.get("name") == "[memory]"]
    events.sort(key=lambda event: event["ts"])
    return max(accumulate(event["args"]["Bytes"] for event in events))


@pytest.mark.parametrize(
    ("settings", "n_tokens"),
    [
        (Atomic(n_latents=1536, init="xavier"), 1536),
        (Quadratic(n_latents=256, n_hidden=2048, init="xavier", lens="paper"), 1024),
        (composite(512, 1024, 1.0), 4096),
        (composite(1024, 2048, 0.001), 8192),
        (composite(2048, 4096, 0.002), 1024),
        (TopK(n_latents=1024), 2048),
    ],
    ids=str,
)
def test_predicted_peak_memory_is_what_tensors_take(settings: Settings, n_tokens: int, tmp_path: Path) -> None:
    size = phase_of(settings, 16, n_tokens).size
    # What malloc keeps on top of the tensors of a sparse step is no tensor.
    is_sparse = isinstance(size, FormsStep) and size.storage == "sparse"
    working = size.working_bytes / (ALLOCATOR_OVERHEAD if is_sparse else 1)

    def train_two_steps() -> None:
        learner, tokens = learner_of(settings, 16), torch.randn(n_tokens, 16)
        learner.step(tokens)
        learner.step(tokens)

    counted = allocated_peak(train_two_steps, tmp_path / "trace.json")
    assert size.state_bytes + working == pytest.approx(counted, rel=0.3)


@pytest.mark.parametrize("settings", [composite(64, 128, 1.0), composite(256, 512, 0.004), TopK(n_latents=64)], ids=str)
def test_a_checkpoint_takes_the_predicted_disk_space(settings: Settings, tmp_path: Path) -> None:
    learner = learner_of(settings, 32)
    learner.step(torch.randn(64, 32))
    write_checkpoint(tmp_path, Checkpoint(1, [{}], {"one": learner.state()}), keep=2)
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    assert phase_of(settings, 32, 64).size.checkpoint_bytes == pytest.approx(on_disk, rel=0.15)


def test_half_share_is_the_upper_triangle_of_blocks() -> None:
    assert half_share(100) == 1
    assert half_share(576) == pytest.approx(3 / 4)
    assert half_share(4096) == pytest.approx(9 / 16)


def test_a_composite_run_has_a_dense_phase_and_then_a_sparse_one() -> None:
    settings = Composite(n_latents=64, n_hidden=128, atoms_per_latent=0.128, lens="paper")
    dense, sparse = phases(settings, settings.default_loss(), 32, 256, 600)
    assert (dense.first_step, dense.last_step + 1, sparse.last_step) == (0, sparse.first_step, 599)
    assert (dense.size.storage, sparse.size.storage) == ("dense", "sparse")
    dictionary = settings.build(32)
    for step, expected in ((dense.last_step, False), (sparse.first_step, True)):
        dictionary.before_step(step, 600)
        assert isinstance(dictionary.mixing, Sparse) == expected


def test_a_composite_run_that_starts_sparse_has_more_entries_first() -> None:
    settings = Composite(n_latents=65_536)
    annealed, last = phases(settings, settings.default_loss(), 128, 2048, 600)
    assert annealed.name == "sparse C, annealed"
    assert (annealed.size.n_entries, last.size.n_entries) == (64 * 65_536, 16 * 65_536)
    assert annealed.size.path == last.size.path == "lifted"
    for phase in (annealed, last):
        assert phase.size.state_bytes + phase.size.working_bytes < 16 * 2**30


@pytest.mark.parametrize("settings", [Atomic(n_latents=64), Quadratic(n_latents=64), TopK(n_latents=64)], ids=str)
def test_the_others_have_one_phase(settings: Settings) -> None:
    (phase,) = phases(settings, settings.default_loss(), 32, 256, 600)
    assert (phase.first_step, phase.last_step) == (0, 599)


def test_the_cost_of_a_kind_from_outside_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Outside(Settings):
        kind = "outside"

        def build(self, d_model: int, *, lens: Any = None, seed: int = 0) -> Any:
            raise NotImplementedError

    monkeypatch.setitem(KINDS, "outside", Outside)
    assert phases(Outside(), (Error(),), 32, 256, 600) == []


def test_blocks_hold_less_than_a_whole_gram_matrix_would() -> None:
    size = phase_of(Atomic(n_latents=20_000), 256, 512, (Error(), Density())).size
    assert size.path == "blocked"
    assert size.working_bytes < 4 * 20_000**2


def test_processes_share_the_kernel_and_hold_the_same_state() -> None:
    """At least 0.85 of perfect sharing at the paper's size, with dense and with sparse C."""
    settings = Composite(n_latents=8192, lens="paper", atoms_per_latent=16.384, initial_density=1.0)
    for alone, shared in zip(
        phases(settings, settings.default_loss(), 1024, 8192, STEPS),
        phases(settings, settings.default_loss(), 1024, 2048, STEPS, 4),
        strict=True,
    ):
        assert shared.size == replace(alone.size, n_tokens=2048, n_processes=4)
        one, four = alone.size.flops(), shared.size.flops()
        assert four["latents"] == one["latents"] / 4
        assert four["kernel"] == one["kernel"] / 4
        assert sum(one.values()) / 4 > 0.85 * sum(four.values())
        assert shared.size.state_bytes == alone.size.state_bytes
