"""The paper's recipe to the letter, and what a grid trains."""

from quadric.activations import ActivationConfig
from quadric.autoencoders.bilinear import default_hidden
from quadric.recipes import PAPER, SMALL, Grid, autoencoders, paper, run, small


def test_the_paper_recipe_has_the_papers_numbers():
    config = paper("smollm2", "18")
    (autoencoder,) = config.autoencoders
    assert autoencoder.hook_point == "resid_pre.18"
    assert (autoencoder.prior, autoencoder.n_latents, autoencoder.mixing_density) == ("composite", 8192, 0.001)
    assert default_hidden(autoencoder.n_latents, autoencoder.prior) == 16384
    assert autoencoder.n_hidden is None  # so the default stands
    assert (autoencoder.alpha, autoencoder.init, autoencoder.symmetric) == (0.3, "orthogonal", True)
    training = config.training
    assert (training.steps, training.alpha_warmup_steps) == (2**11, 256)
    assert (training.learning_rate, training.momentum) == (0.03, 0.95)
    assert (config.sequences_per_step, config.activations.corpus.block_length) == (32, 256)
    assert config.activations.corpus.source == "HuggingFaceFW/fineweb"


def test_a_grid_trains_every_combination_once():
    grid = Grid(dictionaries=("composite", "atomic", "topk"), alphas=(0.1, 0.3), seeds=(0, 1))
    found = autoencoders(("resid_pre.1", "resid_pre.2"), SMALL, grid)
    # 2 hook points × 2 seeds × (2 bilinear × 2 alphas + 1 baseline, which has no alpha)
    assert len(found) == 2 * 2 * (2 * 2 + 1)
    assert len({each.name for each in found}) == len(found)


def test_an_atomic_dictionary_of_a_grid_keeps_its_number_of_latents():
    config = run(PAPER, ActivationConfig(hook_points="3"), Grid(dictionaries=("atomic", "quadratic")))
    assert [each.n_latents for each in config.autoencoders] == [8192, 8192]


def test_the_small_recipe_is_the_papers_but_for_its_size():
    large, little = paper("smollm2", "15"), small()
    assert little.training.learning_rate == large.training.learning_rate
    assert little.autoencoders[0].alpha == large.autoencoders[0].alpha
    assert little.autoencoders[0].hook_point == "resid_pre.15"
