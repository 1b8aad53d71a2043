"""Flags are made from the configs: names, help, defaults, and which of them were given."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest
import tyro

from quadric.cli.flags import Taken, attribute_docs, check_resumes_with, flag_group, given_flags, shortened
from quadric.cli.run_flags import Combined, RuleFlags, TextFlags
from quadric.cli.train import Output, Train
from quadric.data.settings import ActivationConfig, CorpusConfig, HarvestConfig, TokenRules
from quadric.evaluation.settings import EvaluationSettings
from quadric.model.settings import KINDS
from quadric.run.recipes import Recipe
from quadric.train.settings import Training

CONFIGS = [
    ActivationConfig, HarvestConfig, TokenRules, CorpusConfig, EvaluationSettings, Training, Combined, Output,
    *KINDS.values(),
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_of_a_config_has_a_docstring_for_the_help_page(config: type) -> None:
    nested = {"corpus", "rules"} if config is ActivationConfig else set()
    assert attribute_docs(config).keys() >= {each.name for each in fields(config)} - nested
    assert {"sequences_per_step", "epochs"} <= attribute_docs(Recipe).keys()


def parse(*arguments: str) -> Train:
    return tyro.cli(Train, args=arguments)


def test_flags_that_are_not_given_leave_the_config_its_defaults() -> None:
    train = parse()
    assert train.activation_config() == ActivationConfig(hook_points="15")
    assert train.combined() == Combined()
    assert given_flags(train) == []


def test_flags_that_are_given_reach_their_config() -> None:
    train = parse(
        *("--model", "m", "--layer", "3", "--corpus", "c.txt", "--corpus-revision", "r", "--block-length", "32"),
        *("--outliers", "clip", "--prior", "atomic", "topk", "--alpha", "0", "0.5", "--seeds", "7"),
    )
    corpus = CorpusConfig(source="c.txt", revision="r", block_length=32)
    rules = TokenRules(outliers="clip")
    assert train.activation_config() == ActivationConfig(model="m", hook_points="3", corpus=corpus, rules=rules)
    assert train.combined() == Combined(kinds=("atomic", "topk"), alphas=(0.0, 0.5), seeds=(7,))
    assert train.model_name == "m"


def test_a_default_that_is_given_counts_as_given() -> None:
    assert given_flags(parse("--model", "smollm2", "--tensorboard")) == ["--model", "--tensorboard"]


def test_none_can_be_given_where_it_is_not_the_default() -> None:
    assert parse("--seed", "none").activation_config().corpus.seed is None
    assert parse("--model", "none").activation_config().model == "none"


def test_what_resuming_would_ignore_is_refused() -> None:
    check_resumes_with(parse("--resume", "run", "--device", "cpu"), "--resume", "--device")
    with pytest.raises(ValueError, match="--layers, --alpha, --symmetric cannot be given with --resume"):
        check_resumes_with(parse("--resume", "run", "--layer", "3", "--alpha", "0.5", "--no-symmetric"), "--resume")


@dataclass(frozen=True, kw_only=True)
class Settings:
    wanted: int
    """How many."""
    is_open: bool = True
    """Whether it is open."""


@dataclass(frozen=True, kw_only=True)
class MoreSettings(Settings):
    place: Path | None = None
    """Where
    it is."""
    hidden: int = field(default=3, metadata={"is_flag": False})
    """Not for users."""


def test_a_group_can_take_some_fields_under_other_names() -> None:
    group = flag_group("G", Taken(MoreSettings, ("wanted", "place"), renamed={"place": "where"}, required=("wanted",)))
    made = tyro.cli(group, args=["--wanted", "3", "--where", "x"])
    assert made.given(MoreSettings) == made.given(Settings) == {"wanted": 3, "place": Path("x")}
    assert attribute_docs(MoreSettings)["place"] == "Where it is."
    assert attribute_docs(MoreSettings)["wanted"] == "How many."
    with pytest.raises(SystemExit):
        tyro.cli(group, args=[], console_outputs=False)


def test_a_switch_counts_as_given_if_it_differs_and_fields_may_have_no_flag() -> None:
    group = flag_group("G", Taken(MoreSettings, required=("wanted",)))
    assert tyro.cli(group, args=["--wanted", "3", "--is-open"]).given(MoreSettings) == {"wanted": 3}
    assert tyro.cli(group, args=["--wanted", "3", "--no-is-open"]).given(MoreSettings) == {
        "wanted": 3,
        "is_open": False,
    }
    with pytest.raises(SystemExit):
        tyro.cli(group, args=["--wanted", "3", "--hidden", "4"], console_outputs=False)


def test_a_shortened_command_keeps_its_groups_and_their_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tyro.cli(shortened(Train, ("n_latents", "out")), args=["--help"])
    page = capsys.readouterr().out
    assert "Size of the dictionary" in page
    assert "Folder of the run" in page
    assert "Where the run is kept" in page
    assert "--lens" not in page
    assert "token rules" not in page


def test_no_flag_is_made_twice() -> None:
    assert not TextFlags.origins.keys() & RuleFlags.origins.keys()
