"""The paper's recipe has the paper's numbers, and a grid trains every combination."""

from pathlib import Path
from typing import Any

import pytest

from quadric.data import ActivationConfig
from quadric.data.corpus import CorpusConfig
from quadric.model.bilinear import default_hidden
from quadric.run.folder import load
from quadric.run.recipes import (
    PAPER,
    PAPER_MODELS,
    SMALL,
    Grid,
    Scale,
    autoencoders,
    make_run_config,
    paper,
    paper_gemma,
    paper_llama,
    paper_qwen,
    small,
)
from quadric.run.running import create_run, is_finished, train_run
from quadric.run.scales import BILINEAR, DEMO, FIT, LARGE, LINEAR, Dictionary, ignored, resized
from quadric.train import AutoencoderConfig
from tests.data.tiny import save_tiny
from tests.tiny_runs import make_tiny_world


def test_the_paper_recipe_has_the_papers_numbers():
    config = paper("smollm2", "18")
    (autoencoder,) = config.autoencoders
    assert autoencoder.hook_point == "resid_pre.18"
    assert (autoencoder.prior, autoencoder.n_latents, autoencoder.mixing_density) == ("composite", 8192, 0.001)
    assert default_hidden(autoencoder.n_latents, autoencoder.prior) == 16384
    assert autoencoder.n_hidden is None  # the default, twice the latents
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
    config = make_run_config(PAPER, ActivationConfig(hook_points="3"), Grid(dictionaries=("atomic", "quadratic")))
    assert [each.n_latents for each in config.autoencoders] == [8192, 8192]


def test_the_papers_recipe_is_the_print_and_the_others_depart_from_it_as_documented():
    (printed,), (own,) = paper("smollm2", "15").autoencoders, small().autoencoders
    settings = ("lens", "overlap_penalty", "alpha", "top_latents", "tied")
    assert [getattr(printed, name) for name in settings] == ["paper", 0.0, 0.3, None, False]
    assert [getattr(own, name) for name in settings] == ["affine", 0.01, 0.05, 32, False]
    assert own.hook_point == printed.hook_point == "resid_pre.15"


@pytest.mark.parametrize("dictionary", [*BILINEAR, *LINEAR])
@pytest.mark.parametrize(
    "changes",
    [
        {"n_latents": 64}, {"n_hidden": 64}, {"atoms_per_latent": 3.0}, {"mixing_density": 0.5},
        {"initial_density": 0.5}, {"lens": "affine"}, {"overlap_penalty": 0.5}, {"alpha": 0.7}, {"top_latents": 8},
        {"mean_penalty": 0.5}, {"tied": True}, {"gradient_dtype": "bfloat16"}, {"n_active": 7},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_setting_changes_the_dictionaries_that_use_it_and_no_other(
    dictionary: Dictionary, changes: dict[str, Any]
) -> None:
    def trained(scale: Scale) -> AutoencoderConfig:
        return autoencoders(("rows",), scale, Grid(dictionaries=(dictionary,)))[0]

    is_changed = trained(resized(PAPER, changes)) != trained(PAPER)
    assert is_changed == (not ignored(changes, (dictionary,)))


def test_many_latents_trained_by_their_strongest_get_a_mean_penalty():
    def penalty(scale: Scale, **changes: Any) -> float:
        return autoencoders(("rows",), resized(scale, changes), Grid())[0].mean_penalty

    assert [penalty(each) for each in (PAPER, LARGE, SMALL, DEMO, FIT)] == [0, 1, 1, 0, 0]
    assert [penalty(FIT, n_latents=size) for size in (600, 601)] == [0, 1]
    assert penalty(LARGE, mean_penalty=0.0) == 0
    assert [penalty(LARGE, top_latents=each) for each in (None, 8192, 8191)] == [0, 0, 1]
    assert penalty(DEMO, mean_penalty=0.5) == 0.5


def test_alphas_of_the_grid_replace_the_scales():
    config = make_run_config(SMALL, ActivationConfig(hook_points="3"), Grid(alphas=(0.0, 0.2)))
    assert [each.alpha for each in config.autoencoders] == [0.0, 0.2]


RECIPES = {"qwen3_5": paper_qwen, "gemma3": paper_gemma, "llama": paper_llama}
TINY = Scale(n_latents=24, n_active=4, mixing_density=0.1, steps=4, alpha_warmup_steps=1, sequences_per_step=4)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", RECIPES)
def test_a_papers_recipe_runs_from_model_to_folder_on_a_tiny_model_of_its_class(
    architecture: str, tmp_path: Path
) -> None:
    world = make_tiny_world(tmp_path / "world")
    model = str(save_tiny(tmp_path / "model", architecture))
    text = CorpusConfig(source=str(world / "text.txt"), document_separator="\n\n", block_length=32)
    config = RECIPES[architecture](model, corpus=text, scale=TINY)
    assert {each.hook_point for each in config.autoencoders} == {"resid_pre.0", "resid_pre.2"}
    assert len(config.autoencoders) == 2 * 4
    create_run(config, tmp_path / "run", device="cpu")
    train_run(tmp_path / "run", device="cpu")
    assert is_finished(tmp_path / "run")
    for each in config.autoencoders:
        assert load(tmp_path / "run", name=each.name).d_model == 32


@pytest.mark.parametrize("recipe", RECIPES.values())
def test_a_papers_recipe_has_the_papers_numbers_on_every_even_layer(recipe, tmp_path: Path) -> None:
    config = recipe(str(save_tiny(tmp_path / "model")))
    cells = config.autoencoders
    assert {(each.n_latents, each.n_hidden) for each in cells} == {(8192, None)}
    assert {each.kind if each.kind != "bilinear" else each.prior for each in cells} == {
        "atomic",
        "composite",
        "quadratic",
        "topk",
    }
    assert {each.n_active for each in cells if each.kind == "topk"} == {32}
    assert {each.alpha for each in cells if each.kind == "bilinear"} == {0.3}
    assert config.training == paper("smollm2", "2").training
    assert (config.training.steps, config.sequences_per_step) == (2048, 32)


def test_the_papers_models_have_the_papers_widths() -> None:
    assert {name: model.d_model for name, model in PAPER_MODELS.items()} == {"qwen": 1024, "gemma": 1152, "llama": 2048}
