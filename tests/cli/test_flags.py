"""Flags are made from the configs: names, help, defaults, and which of them were given."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import tyro
from quadric.run.scales import PAPER, SMALL, Grid, Scale, resized

from quadric.cli.activation_flags import RuleFlags, TextFlags
from quadric.cli.flags import attribute_docs, check_resumes_with, flag_group, given_flags, take
from quadric.cli.train import Output, Train
from quadric.data.corpus.config import CorpusConfig
from quadric.data.settings import ActivationConfig, HarvestConfig, TokenRules
from quadric.evaluation.settings import EvaluationSettings
from quadric.run.recipes import training_config


@pytest.mark.parametrize(
    "config", [ActivationConfig, HarvestConfig, TokenRules, CorpusConfig, EvaluationSettings, Scale, Grid, Output]
)
def test_every_field_of_a_config_has_a_docstring_for_the_help_page(config: type) -> None:
    nested = {"corpus", "rules"} if config is ActivationConfig else set()
    assert attribute_docs(config).keys() == {each.name for each in fields(config)} - nested


def parse(*arguments: str) -> Train:
    return tyro.cli(Train, args=arguments)


def test_flags_that_are_not_given_leave_the_config_its_defaults() -> None:
    train = parse()
    assert train.activation_config() == ActivationConfig(hook_points="15")
    assert train.grid() == Grid()
    assert given_flags(train) == []


def test_flags_that_are_given_reach_their_config() -> None:
    train = parse(
        *("--model", "m", "--layer", "3", "--corpus", "c.txt", "--corpus-revision", "r", "--block-length", "32"),
        *("--outliers", "clip", "--prior", "atomic", "topk", "--alpha", "0", "0.5", "--seeds", "7"),
    )
    corpus = CorpusConfig(source="c.txt", revision="r", block_length=32)
    rules = TokenRules(outliers="clip")
    assert train.activation_config() == ActivationConfig(model="m", hook_points="3", corpus=corpus, rules=rules)
    assert train.grid() == Grid(dictionaries=("atomic", "topk"), alphas=(0.0, 0.5), seeds=(7,))
    assert train.model_name == "m"


def test_a_default_that_is_given_counts_as_given() -> None:
    assert given_flags(parse("--model", "smollm2", "--tensorboard")) == ["--model", "--tensorboard"]


def test_none_can_be_given_where_it_is_not_the_default() -> None:
    assert parse("--seed", "none").activation_config().corpus.seed is None
    assert parse("--model", "none").activation_config().model == "none"


def test_sizes_come_from_the_recipe_and_the_warm_up_follows_the_steps() -> None:
    assert parse("--recipe", "paper").scale() == PAPER
    assert parse("--device", "cpu").scale() == SMALL
    assert parse("--recipe", "small", "--n-latents", "64").scale() == resized(SMALL, {"n_latents": 64})
    assert parse("--recipe", "paper", "--steps", "80").scale().alpha_warmup_steps == 10
    assert parse("--recipe", "paper", "--steps", "80", "--alpha-warmup-steps", "3").scale().alpha_warmup_steps == 3


def test_the_learning_rate_reaches_the_training() -> None:
    flags = ("--recipe", "small", "--learning-rate", "0.1", "--learning-rate-decay", "0.5")
    training = training_config(parse(*flags).scale())
    assert (training.learning_rate, training.learning_rate_decay) == (0.1, 0.5)
    assert training_config(parse("--recipe", "small").scale()).learning_rate_decay == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--prior topk --gradient-dtype bfloat16 --tied True",
            "--tied, --gradient-dtype has no meaning for --prior topk",
        ),
        ("--prior topk --alpha 0.5", "--alpha has no meaning for --prior topk; leave it out"),
        (
            "--prior atomic quadratic --initial-density 0.1",
            "--initial-density has no meaning for --prior atomic quadratic",
        ),
        ("--n-active 8", "--n-active has no meaning for --prior composite"),
    ],
)
def test_flags_that_no_prior_uses_are_refused(flags: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(*flags.split()).refuse_ignored()


def test_a_flag_that_one_of_the_priors_uses_is_taken() -> None:
    parse("--prior", "atomic", "topk", "--n-active", "8", "--lens", "paper").refuse_ignored()


def test_what_resuming_would_ignore_is_refused() -> None:
    check_resumes_with(parse("--resume", "run", "--device", "cpu"), "--resume", "--device")
    with pytest.raises(ValueError, match="--layers, --alpha cannot be given with --resume"):
        check_resumes_with(parse("--resume", "run", "--layer", "3", "--alpha", "0.5"), "--resume")


def test_a_group_can_take_some_fields_under_other_names() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Config:
        wanted: int
        """How many."""
        place: Path | None = None
        """Where
        it is."""

    group = flag_group("G", take(Config, "wanted", "place", renamed={"place": "where"}, required=("wanted",)))
    made = tyro.cli(group, args=["--wanted", "3", "--where", "x"])
    assert made.given(Config) == {"wanted": 3, "place": Path("x")}
    assert attribute_docs(Config)["place"] == "Where it is."
    with pytest.raises(SystemExit):
        tyro.cli(group, args=[], console_outputs=False)


def test_no_flag_is_made_twice() -> None:
    assert not TextFlags.origins.keys() & RuleFlags.origins.keys()
