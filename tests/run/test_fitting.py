"""`quadric.fit` as a user calls it: on a tensor, on chunks, on harvested activations; kept, resumed and continued."""

import json
from pathlib import Path

import pytest
import torch

import quadric
from quadric.data.sources import as_activations
from quadric.run.config import read_run_config

SMALL = {"n_latents": 24, "steps": 8, "batch_tokens": 64, "progress": False, "device": "cpu"}


def rows(n: int = 400, d: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def same_weights(one: quadric.model.Autoencoder, other: quadric.model.Autoencoder) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic", "topk", "batch_topk"])
def test_every_kind_of_dictionary_learns_from_a_tensor(prior: str) -> None:
    given = {"n_active": 4} if "topk" in prior else {}
    errors: list[float] = []
    ae = quadric.fit(rows(), prior=prior, callback=lambda step, report: errors.append(report.error), **SMALL, **given)
    assert len(errors) == 8
    assert errors[-1] < errors[0]
    assert not ae.training
    assert quadric.evaluate(ae, rows(seed=1)).error < 1.2


def test_the_same_call_gives_the_same_weights_and_another_seed_others() -> None:
    first = quadric.fit(rows(), **SMALL)
    assert same_weights(first, quadric.fit(rows(), **SMALL))
    assert not same_weights(first, quadric.fit(rows(), **SMALL, seed=1))


def test_sixteen_atoms_per_latent_by_default_and_as_many_as_asked_for() -> None:
    assert quadric.fit(rows(), **SMALL).mixing.n_entries == 24 * 16
    assert quadric.fit(rows(), **SMALL, atoms_per_latent=3).mixing.n_entries == 24 * 3
    assert quadric.fit(rows(), **SMALL | {"n_latents": 4}).mixing_density == 1.0  # four latents have eight atoms


def test_chunks_are_read_in_order_and_repeated_when_they_end() -> None:
    chunks = [rows(50, seed=seed) for seed in range(3)]
    ae = quadric.fit(chunks, **SMALL)
    assert ae.n_latents == 24
    assert same_weights(ae, quadric.fit(chunks, **SMALL))


def test_an_iterator_that_ends_early_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"ended at step 3 of 8; give more text or fewer steps"):
        quadric.fit(iter([rows(50, seed=seed) for seed in range(3)]), **SMALL)


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_a_run_resumed_after_an_interruption_equals_an_uninterrupted_one(decay: float, tmp_path: Path) -> None:
    small = {**SMALL, "learning_rate_decay": decay}

    class StoppedError(Exception):
        pass

    def stop_at_five(step: int, report: object) -> None:
        if step == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        quadric.fit(rows(), **small, out=tmp_path / "run", callback=stop_at_five)
    with pytest.raises(FileExistsError, match=r"exists and is not empty"):
        quadric.fit(rows(), **small, out=tmp_path / "run")
    seen: list[int] = []
    resumed = quadric.fit(
        rows(), **small, out=tmp_path / "run", resume=True, callback=lambda step, _: seen.append(step)
    )
    assert seen == [5, 6, 7, 8]  # checkpoints are two steps apart, the last one was at step 4
    assert same_weights(resumed, quadric.fit(rows(), **small))
    assert same_weights(resumed, quadric.load(tmp_path / "run"))


def test_resuming_with_other_rows_or_other_arguments_is_refused(tmp_path: Path) -> None:
    quadric.fit(rows(), **SMALL, out=tmp_path / "run")
    again = {**SMALL, "out": tmp_path / "run", "resume": True}
    with pytest.raises(ValueError, match=r"was started with other arguments \(alpha: 0.05 before, 0.1 now\)"):
        quadric.fit(rows(), **again, alpha=0.1)
    with pytest.raises(ValueError, match=r"\(learning_rate: 0.03 before, 0.1 now\)"):
        quadric.fit(rows(), **again, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"\(learning_rate_decay: 0.0 before, 0.5 now\)"):
        quadric.fit(rows(), **again, learning_rate_decay=0.5)
    with pytest.raises(ValueError, match=r"steps=4 is fewer than the 8"):
        quadric.fit(rows(), **again | {"steps": 4})
    with pytest.raises(ValueError, match=r"began with other activations \(rows_sha256"):
        quadric.fit(rows(seed=5), **again | {"steps": 12})


def test_a_finished_run_continues_with_a_larger_budget_and_records_it(tmp_path: Path) -> None:
    quadric.fit(rows(), **SMALL, out=tmp_path / "run", atoms_per_latent=2)
    before = quadric.load(tmp_path / "run")
    steps: list[int] = []
    longer = quadric.fit(
        rows(), **SMALL | {"steps": 20}, atoms_per_latent=2, out=tmp_path / "run", resume=True,
        callback=lambda step, _: steps.append(step),
    )  # fmt: skip
    assert steps == list(range(9, 21))
    assert longer.mixing.n_entries == before.mixing.n_entries == 48
    config = read_run_config(tmp_path / "run")
    assert (config.training.steps, config.continued_from) == (20, (8,))
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 21))


def test_start_continues_from_trained_weights(tmp_path: Path) -> None:
    first = quadric.fit(rows(), **SMALL)
    errors: list[float] = []
    more = quadric.fit(
        rows(), start=first, steps=4, batch_tokens=64, progress=False, device="cpu", out=tmp_path / "more",
        callback=lambda _, report: errors.append(report.error),
    )  # fmt: skip
    begun: list[float] = []
    quadric.fit(rows(), **SMALL | {"steps": 1}, callback=lambda _, report: begun.append(report.error))
    assert errors[0] < begun[0]
    assert torch.equal(more.lens.centre, first.lens.centre)
    assert not same_weights(first, more)
    assert read_run_config(tmp_path / "more").started_from is not None
    with pytest.raises(ValueError, match=r"n_latents cannot be given with start="):
        quadric.fit(rows(), 24, start=first)


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (torch.randn(10), {}, r"shape \(10,\); expected a floating-point tensor of shape \(n, d\)"),
        (torch.ones(10, 3, dtype=torch.int64), {}, r"torch.int64 of shape .* e.g. x.float\(\)"),
        (7, {}, r"activations are a int; give a tensor"),
        ([], {}, r"iterable of activations is empty"),
        (torch.randn(10, 3), {"prior": "topk", "alpha": 0.1}, r"alpha=0.1 has no meaning for prior='topk'"),
        (torch.randn(10, 3), {"prior": "atomic", "atoms_per_latent": 4}, r"atoms_per_latent=4 has no meaning"),
        (torch.randn(10, 3), {"atoms_per_latent": 99}, r"atoms_per_latent=99 is outside \(0, 48\]"),
        (torch.randn(10, 3), {"hook_point": "resid_pre.3"}, r"hook_point='resid_pre.3' does not name one"),
        (torch.randn(10, 3), {"resume": True}, r"resume=True needs the folder"),
        (torch.randn(10, 3) * torch.nan, {}, r"activation of token 0 is not finite"),
    ],
)
def test_bad_input_is_a_clear_error(x: object, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quadric.fit(x, **{**SMALL, **arguments})


def offset_rows(n: int = 3000) -> torch.Tensor:
    return rows(n) + torch.linspace(0, 3, 12)


def test_the_lens_centres_the_rows_it_is_estimated_from() -> None:
    x = offset_rows()
    ae = quadric.fit(x, **SMALL)
    assert ae.lens.kind == "affine"
    unit = torch.nn.functional.normalize(x, dim=1)
    assert torch.allclose(ae.lens.centre, unit.mean(0), atol=0.02)
    assert torch.allclose(ae.lens.covariance, torch.cov(unit.T), atol=0.02)
    assert int(ae.lens.n_tokens) >= 16_384


def test_the_paper_lens_is_the_paper_without_its_additions() -> None:
    ae = quadric.fit(offset_rows(), **SMALL, lens="paper")
    assert ae.lens.kind == "paper"
    assert ae.left.shape[1] == 12


@pytest.mark.slow
def test_an_iterator_gives_its_first_rows_to_the_lens_and_to_training() -> None:
    chunks = [rows(64, seed=seed) for seed in range(8)]
    from_list, from_iterator = quadric.fit(chunks, **SMALL), quadric.fit(iter(chunks), **SMALL)
    # A list is repeated until there are enough rows for the lens, so only what training read must be equal.
    assert from_iterator.n_latents == from_list.n_latents
    assert int(from_iterator.lens.n_tokens) == 8 * 64
    read = as_activations(iter([rows(40_000, seed=seed) for seed in range(3)]))
    quadric.fit(read, **SMALL | {"batch_tokens": 20_000, "steps": 5})
    with pytest.raises(ValueError, match=r"iterator, which has been read already"):
        quadric.fit(read, **SMALL)


def test_no_latent_is_a_copy_of_another_with_the_default_penalty() -> None:
    with_penalty = quadric.fit(offset_rows(), **SMALL | {"steps": 40}, atoms_per_latent=2)
    assert quadric.geometry.redundancy(with_penalty).n_distinct >= 23


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("affine", 0.05, 0.01, 32)),
        ({"lens": "paper"}, ("paper", 0.3, 0.0, None)),
        ({"lens": "paper", "top_latents": 4}, ("paper", 0.3, 0.0, 4)),
        ({"alpha": 0}, ("affine", 0.0, 0.01, 32)),
    ],
)
def test_the_papers_lens_brings_the_papers_settings(tmp_path: Path, given: dict, expected: tuple) -> None:
    quadric.fit(rows(), **{**SMALL, "steps": 2}, **given, out=tmp_path / "run")
    (config,) = read_run_config(tmp_path / "run").autoencoders
    assert (config.lens, config.alpha, config.overlap_penalty, config.top_latents) == expected
