"""`quadric.fit` as a user calls it: on a tensor, on chunks, on harvested activations; kept, resumed and continued."""

from pathlib import Path

import pytest
import torch

import quadric
from quadric.data.sources import as_activations
from quadric.model import Density, Error, Overlap, paper_loss
from quadric.run.config import read_run_config
from quadric.run.running import is_finished
from quadric.run.telemetry import read_metrics
from quadric.train import Learner
from tests.model.test_terms import Sparse

TRAINED = {"steps": 8, "batch_tokens": 64, "progress": False, "device": "cpu"}
SMALL = {"n_latents": 24, **TRAINED}


def rows(n: int = 400, d: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def same_weights(one: quadric.Dictionary, other: quadric.Dictionary) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    "kind", [quadric.Atomic, quadric.Composite, quadric.Quadratic, quadric.TopK, quadric.BatchTopK]
)
def test_every_kind_of_dictionary_learns_from_a_tensor(kind: type[quadric.Settings]) -> None:
    given = {"n_active": 4} if "topk" in kind.kind else {}
    errors: list[float] = []
    ae = quadric.fit(
        rows(), kind(n_latents=24, **given), **TRAINED, callbacks=[lambda each: errors.append(each.report["error"])]
    )
    assert len(errors) == 8
    assert errors[-1] < errors[0]
    assert not ae.training
    assert ae.settings == kind(n_latents=24, **given).resolved(12)
    assert quadric.evaluate(ae, rows(seed=1)).error < 1.2


def test_a_number_a_name_and_settings_ask_for_the_same() -> None:
    one, *others = (
        quadric.fit(rows(), kind, **given, **TRAINED)
        for kind, given in (
            (quadric.Atomic(n_latents=24), {}), (24, {"prior": "atomic"}), (None, {"n_latents": 24, "prior": "atomic"}),
        )
    )  # fmt: skip
    assert all(same_weights(one, other) for other in others)
    assert quadric.fit(rows(), **TRAINED | {"steps": 1}).settings == quadric.Composite().resolved(12)


def few_atoms(atoms_per_latent: float) -> quadric.Composite:
    return quadric.Composite(n_latents=24, atoms_per_latent=atoms_per_latent)


def test_the_same_call_gives_the_same_weights_and_another_seed_others() -> None:
    first = quadric.fit(rows(), **SMALL)
    assert same_weights(first, quadric.fit(rows(), **SMALL))
    assert not same_weights(first, quadric.fit(rows(), **SMALL, seed=1))


def test_sixteen_atoms_per_latent_by_default_and_as_many_as_asked_for() -> None:
    assert quadric.fit(rows(), **SMALL).mixing.n_entries == 24 * 16
    assert quadric.fit(rows(), few_atoms(3), **TRAINED).mixing.n_entries == 24 * 3
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
    small = {**SMALL, "training": quadric.Training(learning_rate_decay=decay)}

    class StoppedError(Exception):
        pass

    def fail_at_five(learner: Learner) -> None:
        if learner.step_index == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        quadric.fit(rows(), **small, out=tmp_path / "run", callbacks=[fail_at_five])
    with pytest.raises(FileExistsError, match=r"exists and is not empty"):
        quadric.fit(rows(), **small, out=tmp_path / "run")
    seen: list[int] = []
    resumed = quadric.fit(
        rows(), **small, out=tmp_path / "run", resume=True, callbacks=[lambda each: seen.append(each.step_index)]
    )
    assert seen == [5, 6, 7, 8]  # checkpoints are two steps apart, the last one was at step 4
    assert same_weights(resumed, quadric.fit(rows(), **small))
    assert same_weights(resumed, quadric.load(tmp_path / "run"))


def test_a_callback_ends_a_run_which_can_be_resumed(tmp_path: Path) -> None:
    stopped = quadric.fit(rows(), **SMALL, out=tmp_path / "run", callbacks=[lambda learner: learner.step_index == 3])
    assert same_weights(stopped, quadric.load(tmp_path / "run"))
    assert not is_finished(tmp_path / "run")
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3]
    in_memory = quadric.fit(rows(), **SMALL, callbacks=[lambda learner: learner.step_index == 3])
    assert same_weights(stopped, in_memory)
    resumed = quadric.fit(rows(), **SMALL, out=tmp_path / "run", resume=True)
    assert is_finished(tmp_path / "run")
    assert same_weights(resumed, quadric.fit(rows(), **SMALL))


def test_a_loss_of_ones_own_is_trained_reported_and_resumed(tmp_path: Path) -> None:
    loss = [*few_atoms(3).default_loss(), Sparse(0.5, power=2.0)]
    whole = quadric.fit(rows(), few_atoms(3), **TRAINED, loss=loss)
    assert not same_weights(whole, quadric.fit(rows(), few_atoms(3), **TRAINED))
    begun = {**TRAINED, "loss": loss, "out": tmp_path / "run"}
    quadric.fit(rows(), few_atoms(3), **begun, callbacks=[lambda learner: learner.step_index == 5])
    assert read_run_config(tmp_path / "run").cells[0].loss == tuple(loss)
    assert all(line["sparse"] > 0 for line in read_metrics(tmp_path / "run"))
    with pytest.raises(ValueError, match=r"was started with other arguments \(power: 2.0 before, 1.0 now\)"):
        quadric.fit(rows(), few_atoms(3), **begun | {"loss": [*loss[:-1], Sparse(0.5)]}, resume=True)
    assert same_weights(whole, quadric.fit(rows(), few_atoms(3), **begun, resume=True))


def test_resuming_with_other_rows_or_other_arguments_is_refused(tmp_path: Path) -> None:
    quadric.fit(rows(), **SMALL, out=tmp_path / "run")
    again = {**SMALL, "out": tmp_path / "run", "resume": True}
    with pytest.raises(ValueError, match=r"other arguments \(n_latents: 24 before, 25 now\)"):
        quadric.fit(rows(), **again | {"n_latents": 25})
    for changed, message in (
        (quadric.Training(learning_rate=0.1), r"\(learning_rate: None before, 0.1 now\)"),
        (quadric.Training(learning_rate_decay=0.5), r"\(learning_rate_decay: None before, 0.5 now\)"),
    ):
        with pytest.raises(ValueError, match=message):
            quadric.fit(rows(), **again, training=changed)
    with pytest.raises(ValueError, match=r"steps=4 is fewer than the 8"):
        quadric.fit(rows(), **again | {"steps": 4})
    for steps in (8, 12):  # with nothing left to do, and with some
        with pytest.raises(ValueError, match=r"began with other activations \(rows_sha256"):
            quadric.fit(rows(seed=5), **again | {"steps": steps})
    assert same_weights(quadric.fit(rows(), **again), quadric.load(tmp_path / "run"))  # which was not extended


def test_what_the_caller_sets_for_torch_changes_no_weight() -> None:
    x = rows()
    expected = quadric.fit(x, **SMALL)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same_weights(quadric.fit(x, **SMALL), expected)
    torch.set_default_dtype(torch.float64)
    try:
        assert same_weights(quadric.fit(x, **SMALL), expected)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_finished_run_continues_with_a_larger_budget_and_records_it(tmp_path: Path) -> None:
    before = quadric.fit(rows(), few_atoms(2), **TRAINED, out=tmp_path / "run")
    steps: list[int] = []
    longer = quadric.fit(
        rows(), few_atoms(2), **TRAINED | {"steps": 20}, out=tmp_path / "run", resume=True,
        callbacks=[lambda learner: steps.append(learner.step_index)],
    )  # fmt: skip
    assert steps == list(range(9, 21))
    assert longer.mixing.n_entries == before.mixing.n_entries == 48
    config = read_run_config(tmp_path / "run")
    assert (config.training.steps, config.continued_from) == (20, (8,))
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == list(range(1, 21))


def test_start_continues_from_trained_weights(tmp_path: Path) -> None:
    first = quadric.fit(rows(), **SMALL)
    errors: list[float] = []
    more = quadric.fit(
        rows(), start=first, steps=4, batch_tokens=64, progress=False, device="cpu", out=tmp_path / "more",
        callbacks=[lambda learner: errors.append(learner.report["error"])],
    )  # fmt: skip
    begun: list[float] = []
    quadric.fit(rows(), **SMALL | {"steps": 1}, callbacks=[lambda learner: begun.append(learner.report["error"])])
    assert errors[0] < begun[0]
    assert torch.equal(more.lens.centre, first.lens.centre)
    assert not same_weights(first, more)
    assert read_run_config(tmp_path / "more").started_from is not None
    with pytest.raises(ValueError, match=r"kind cannot be given with start=, which determines it"):
        quadric.fit(rows(), 24, start=first)


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (torch.randn(10), {}, r"shape \(10,\); expected a floating-point tensor of shape \(n, d\)"),
        (torch.ones(10, 3, dtype=torch.int64), {}, r"torch.int64 of shape .* e.g. x.float\(\)"),
        (7, {}, r"activations are a int; give a tensor"),
        ([], {}, r"iterable of activations is empty"),
        (torch.randn(10, 3), {"prior": "topk", "lens": "paper"}, r"lens='paper' has no meaning for kind='topk', which"),
        (torch.randn(10, 3), {"prior": "cubic"}, r"'cubic' is not a known kind .* import the module"),
        (torch.randn(10, 3), {"kind": 24}, r"kind=24 and n_latents=24 both give the number of latents; leave one out"),
        (torch.randn(10, 3), {"kind": quadric.TopK(), "prior": "topk"}, r"prior='topk' and .* both name what to train"),
        (torch.randn(10, 3), {"loss": []}, r"the loss has no terms, so nothing would be trained"),
        (torch.randn(10, 3), {"loss": [Density(warmup=9)]}, r"density.warmup=9 exceeds steps=8; shorten the warm-up"),
        (torch.randn(10, 3), {"batch_tokens": 0}, r"batch_tokens=0 is not a whole number ≥ 1; give the rows per batch"),
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
    with_penalty = quadric.fit(offset_rows(), few_atoms(2), **TRAINED | {"steps": 40})
    assert quadric.geometry.redundancy(with_penalty).n_distinct >= 23


def test_the_papers_lens_brings_the_papers_loss(tmp_path: Path) -> None:
    for number, (given, loss) in enumerate(
        (
            ({}, (Error(top=2), Density(0.05), Overlap(0.01))),
            ({"lens": "paper"}, paper_loss()),
            ({"lens": "paper", "loss": [Error(top=4)]}, (Error(top=4),)),
        )
    ):
        quadric.fit(rows(), **{**SMALL, "steps": 2}, **given, out=tmp_path / str(number))
        (cell,) = read_run_config(tmp_path / str(number)).cells
        assert (cell.settings.lens, cell.loss) == (given.get("lens", "affine"), loss)
        assert quadric.load(tmp_path / str(number)).left.shape[1] == 12 + (cell.settings.lens == "affine")
