"""Cross-entropy and divergence against torch's functions, and the results that a run keeps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import quadric
from quadric import BilinearAutoencoder
from quadric.evaluation import Evaluation
from quadric.evaluation.record import (
    Predictions,
    PredictionSums,
    Recovered,
    keep_in_runs,
    kept_in_run,
    rows_in_run,
)


def test_sums_match_torch_and_ignore_padding():
    generator = torch.Generator().manual_seed(0)
    logits, original = torch.randn(2, 3, 6, 11, generator=generator)
    tokens = torch.randint(11, (3, 6), generator=generator)
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[2, 3:] = False
    sums = PredictionSums()
    sums.add(logits, original, tokens, mask)
    counts = mask[:, 1:]
    expected = functional.cross_entropy(logits[:, :-1][counts], tokens[:, 1:][counts])
    log_q, log_p = logits[:, :-1][counts].log_softmax(-1), original[:, :-1][counts].log_softmax(-1)
    divergence = functional.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    assert sums.n_tokens == 5 + 5 + 2
    assert sums.mean().cross_entropy == pytest.approx(expected.item(), rel=1e-5)
    assert sums.mean().divergence == pytest.approx(divergence.item(), rel=1e-5)


def test_recovered_is_one_for_the_unmodified_model_and_zero_for_the_ablation():
    zero, mean = Predictions(9.0, 7.0), Predictions(8.0, 5.0)
    perfect = Recovered(10, 3.0, Predictions(3.0, 0.0), zero, mean)
    useless = Recovered(10, 3.0, zero, zero, mean)
    assert (perfect.cross_entropy(zero), perfect.divergence(mean)) == (1.0, 1.0)
    assert (useless.cross_entropy(zero), useless.divergence(zero)) == (0.0, 0.0)
    assert useless.cross_entropy(mean) < 0  # worse than the mean ablation gives a negative value


def an_evaluation(ae: BilinearAutoencoder, run: Path, name: str, split: str = "held_out") -> Evaluation:
    measured = quadric.evaluate(ae, torch.randn(50, 4, generator=torch.Generator().manual_seed(0)), progress=False)
    return replace(measured, run=str(run), name=name, split=split)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


AE = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=0)
FURTHER = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=1)


def test_evaluating_one_autoencoder_of_a_run_keeps_the_results_of_the_others(run: Path) -> None:
    keep_in_runs([an_evaluation(AE, run, "a"), an_evaluation(FURTHER, run, "b")])
    keep_in_runs([an_evaluation(AE, run, "a")])
    assert [row["name"] for row in json.loads((run / "evaluation.json").read_text())] == ["a", "b"]
    assert kept_in_run(run, "b", FURTHER) is not None


def test_a_result_is_shown_for_its_own_weights_on_held_out_text_alone(run: Path) -> None:
    keep_in_runs([an_evaluation(AE, run, "a"), an_evaluation(AE, run, "trained on", split="train")])
    assert kept_in_run(run, "a", AE) is not None
    assert kept_in_run(run, "a", FURTHER) is None
    assert kept_in_run(run, "trained on", AE) is None
    rows = [{name: row[name] for name in row if name != "weights_sha256"} for row in rows_in_run(run)]
    (run / "evaluation.json").write_text(json.dumps(rows))  # as an earlier Quadric wrote it
    assert kept_in_run(run, "a", AE) is None


@pytest.mark.parametrize("mine", ['[{"student": "A", "grade": 1}]', '{"course": 1}', "notes"])
def test_a_file_of_somebody_else_is_not_replaced(run: Path, mine: str) -> None:
    (run / "evaluation.json").write_text(mine)
    with pytest.raises(ValueError, match="delete it if it is of Quadric, and run quadric evaluate again"):
        keep_in_runs([an_evaluation(AE, run, "a")])
    assert (run / "evaluation.json").read_text() == mine
