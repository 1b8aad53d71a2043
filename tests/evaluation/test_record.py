"""Cross-entropy and divergence against torch's functions."""

import pytest
import torch
from torch.nn import functional

from quadric.evaluation.record import Predictions, PredictionSums, Recovered


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
