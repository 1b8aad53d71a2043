"""The paper's recipe has the paper's numbers, and cells combine kinds, settings, weights and seeds."""

from dataclasses import replace
from pathlib import Path

import pytest

from quadric.data import ActivationConfig
from quadric.data.corpus import CorpusConfig
from quadric.model import Composite, Density, Error, Mean, Overlap, TopK, paper_loss
from quadric.run import recipes
from quadric.run.folder import load
from quadric.run.recipes import (
    DEMO,
    LARGE,
    PAPER,
    RECIPES,
    SMALL,
    Recipe,
    cells,
    changed_loss,
    paper,
    recipe_of,
    run_of,
)
from quadric.run.running import create_run, is_finished, train_run
from quadric.train import Training
from tests.data.tiny import save_tiny
from tests.tiny_runs import make_tiny_world

ROWS = ("rows",)


def test_the_paper_recipe_has_the_papers_numbers(tmp_path: Path):
    config = paper(str(save_tiny(tmp_path / "model")))
    assert {cell.hook_point for cell in config.cells} == {"resid_pre.0", "resid_pre.2"}, "every second layer"
    found = {cell.settings.kind: cell for cell in config.cells}
    assert list(found) == ["atomic", "composite", "quadratic", "topk"]
    assert {cell.settings.n_latents for cell in config.cells} == {8192}
    composite = found["composite"].settings
    assert (composite.atoms, composite.mixing_density, composite.density_at_start) == (16384, 0.001, 1)
    assert (composite.init, composite.symmetric, composite.same_factors) == ("orthogonal", True, False)
    assert all(found[kind].loss == paper_loss(0.3) for kind in ("atomic", "composite", "quadratic"))
    assert found["topk"].settings.n_active == 32
    assert [Density(0.3).weight_at(step, 2048) for step in (128, 256)] == [0.15, 0.3]
    training = config.training
    assert (training.steps, training.rate, training.momentum, training.decay) == (2**11, 0.03, 0.95, 0)
    assert (config.sequences_per_step, config.activations.corpus.block_length) == (32, 256)
    assert config.activations.corpus.source == "HuggingFaceFW/fineweb"


def test_other_recipes_are_the_kinds_defaults_at_other_sizes():
    (own,) = run_of(SMALL, ActivationConfig(hook_points="15")).cells
    assert own.settings == Composite(n_latents=1024)
    assert own.loss == Composite(n_latents=1024).default_loss()
    assert [type(term) for term in own.loss] == [Mean, Error, Density, Overlap]
    assert recipes.demo("cache").cells[0].loss[1] == Density(0.05, warmup=40)
    assert RECIPES == {"small": SMALL, "large": LARGE, "paper": PAPER}
    assert [recipe_of(name, "cpu") for name in ("auto", "large", "paper")] == [SMALL, LARGE, PAPER]
    with pytest.raises(ValueError, match="recipe='huge' is unknown; choose one of auto, small, large, paper"):
        recipe_of("huge")


def test_every_combination_is_trained_once():
    kinds = ("composite", "atomic", "topk")
    found = cells(("resid_pre.1", "resid_pre.2"), kinds, recipe=SMALL, alphas=(0.1, 0.3), seeds=(0, 1))
    # 2 hook points × 2 seeds × (2 bilinear × 2 alphas + 1 baseline, which has no density to weigh)
    assert len(found) == len({each.name for each in found}) == 2 * 2 * (2 * 2 + 1)
    close = cells(ROWS, alphas=(0.1234567, 0.1234568))
    assert [each.loss[1].weight for each in close] == [0.1234567, 0.1234568]
    assert [each.loss[1].weight for each in cells(ROWS, alphas=(0.0, 0.2))] == [0.0, 0.2]


def test_a_setting_goes_to_the_kinds_that_have_it_and_one_that_none_has_is_an_error():
    found = cells(ROWS, ("atomic", "composite", "topk"), settings={"n_latents": 64, "n_hidden": 80, "n_active": 7})
    atomic, composite, topk = (each.settings for each in found)
    assert (atomic.atoms, composite.n_hidden, topk.n_active) == (64, 80, 7)
    with pytest.raises(ValueError, match="n_hidden=80 has no meaning for atomic, topk; leave it out"):
        cells(ROWS, ("atomic", "topk"), settings={"n_hidden": 80})
    given = cells(ROWS, (TopK(n_latents=40, n_active=3), "atomic"), recipe=SMALL, settings={"n_latents": 50})
    assert [each.settings.n_latents for each in given] == [50, 50]
    assert given[0].settings.n_active == 3, "what was given as settings is no recipe's to change"
    assert cells(ROWS, (TopK(n_latents=40),), recipe=SMALL)[0].settings.n_latents == 40


def test_changes_of_a_loss():
    terms = paper_loss()
    assert changed_loss(terms, {"density": 0.1, "error.top": 32}) == (Error(top=32), Density(0.1))
    assert changed_loss(terms, {"overlap": 0.5, "mean.weight": 2.0}) == (*terms, Overlap(0.5), Mean(2.0))
    assert changed_loss(terms, {"overlap": 0.5, "mean": 1.0}, added=["mean"]) == (*terms, Mean(1.0))
    (cell,) = cells(ROWS, ("topk",), recipe=DEMO, settings={"n_latents": 64})
    assert cell.loss == (*TopK().default_loss()[:2], Density(0.0, warmup=40))
    (cell,) = cells(ROWS, loss={"overlap": 0.0, "density.warmup": 3}, recipe=PAPER)
    assert cell.loss == (Error(), Density(0.3, warmup=3), Overlap(0.0))
    for changes, message in (
        ({"error.size": 3}, "error.size=3: the term error has weight, top, and no size"),
        ({"colour": 3}, "the loss has the term 'colour', which is unknown"),
        ({"error.top": 0}, "top=0 is not positive"),
    ):
        with pytest.raises(ValueError, match=message):
            changed_loss(terms, changes)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["qwen3_5", "gemma3", "llama"])
def test_the_papers_recipe_runs_from_model_to_folder_on_a_tiny_model_of_its_models(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Recipe(
        settings={**PAPER.settings, "n_latents": 24, "n_active": 4, "atoms_per_latent": 4.0},
        training=Training(steps=4), sequences_per_step=4,
    )  # fmt: skip
    monkeypatch.setattr(recipes, "PAPER", replace(tiny, loss={"density.warmup": 1}))
    world = make_tiny_world(tmp_path / "world")
    text = CorpusConfig(source=str(world / "text.txt"), document_separator="\n\n", block_length=32)
    config = paper(str(save_tiny(tmp_path / "model", architecture)), corpus=text)
    assert len(config.cells) == 2 * 4
    create_run(config, tmp_path / "run", device="cpu")
    train_run(tmp_path / "run", device="cpu")
    assert is_finished(tmp_path / "run")
    for cell in config.cells:
        loaded = load(tmp_path / "run", name=cell.name)
        assert (loaded.d_model, loaded.settings) == (32, cell.settings.resolved(32))


def test_a_run_of_a_recipe_has_its_sizes():
    config = run_of(DEMO, ActivationConfig(hook_points="15"), cache="somewhere")
    assert (config.sequences_per_step, config.epochs, config.cache) == (16, 12, "somewhere")
    assert config.training.checkpoint_every == 100
