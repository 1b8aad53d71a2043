"""The loop trains, anneals, and stops with a message when it must."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.training.loop import TrainingConfig, train
from tests import zoo


def batches(count: int):
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(4, 12, generator=generator)
    return [torch.randn(64, 4, generator=generator) @ basis for _ in range(count)]


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic", "topk"])
def test_every_autoencoder_learns(prior):
    density = {"mixing_density": 1.0} if prior == "composite" else {}
    if prior == "topk":
        ae = TopKAutoencoder(d_model=12, n_latents=24, n_active=4)
    else:
        ae = BilinearAutoencoder(d_model=12, n_latents=24, prior=prior, **density)
    reports = []
    config = TrainingConfig(steps=60, alpha=0.1, alpha_warmup_steps=10, mixing_density=0.1)
    train(ae, batches(60), config, reports.append)
    assert [report.step for report in reports] == list(range(60))
    assert reports[-1].error < 0.6 * reports[0].error
    if prior == "composite":
        assert ae.mixing_density == pytest.approx(0.1, rel=0.01)


def test_too_few_batches_are_named():
    with pytest.raises(ValueError, match="ended at step 3 of 10"):
        train(zoo.make("atomic"), batches(3), TrainingConfig(steps=10, alpha_warmup_steps=0))


def test_a_diverging_loss_stops_at_its_step():
    ae = zoo.make("atomic", torch.float32)
    with torch.no_grad():
        ae.left *= 1e20
    with pytest.raises(ValueError, match=r"the loss is (inf|nan) at step 0; lower learning_rate"):
        train(ae, batches(3), TrainingConfig(steps=3, alpha_warmup_steps=0))


def test_a_warm_up_longer_than_the_run_is_refused():
    with pytest.raises(ValueError, match="alpha_warmup_steps=600 exceeds steps=500; shorten the warm-up"):
        TrainingConfig(steps=500, alpha_warmup_steps=600)
