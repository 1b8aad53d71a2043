"""What the flags of train, sweep and plan ask for: recipes, settings, the loss, and kinds of the user's own."""

from pathlib import Path

import pytest
import tyro

from quadric import Atomic, Composite, Training
from quadric.cli import main
from quadric.cli.run_flags import RunFlags, import_files, loss_changes
from quadric.model.settings import KINDS
from quadric.model.terms import TERMS
from quadric.run.recipes import PAPER, SMALL, cells
from quadric.train import Cell
from tests.cli.terminal import only_complaint

OWN = '''
from dataclasses import dataclass

import quadric


class Loud(quadric.Term):
    """How large latents are."""

    name = "loud"
    limit: float | None = None

    def __call__(self, step):
        return step.mean(step.z.abs().amax(1))


@quadric.register("gated")
@dataclass(frozen=True, kw_only=True)
class Gated(quadric.TopK):
    gate: float = 0.5
    """Where the gate opens."""
'''


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a kind and a term, neither of which outlives the test."""
    monkeypatch.setattr("quadric.model.settings.KINDS", KINDS)
    before = dict(KINDS), dict(TERMS)
    path = tmp_path / "own.py"
    path.write_text(OWN)
    yield path
    for registry, names in zip((KINDS, TERMS), before, strict=True):
        registry.clear()
        registry.update(names)


def parse(*arguments: str) -> RunFlags:
    return tyro.cli(RunFlags, args=arguments)


def cells_of(*arguments: str) -> tuple[Cell, ...]:
    run = parse(*arguments)
    kinds = run.combined().kinds
    return cells(["resid_pre.3"], kinds, recipe=run.recipe(), **run.changes(kinds))


def test_sizes_and_training_come_from_the_recipe() -> None:
    assert parse("--recipe", "paper").recipe() == PAPER
    assert parse("--device", "cpu").recipe() == SMALL
    changed = parse("--recipe", "paper", "--steps", "80", "--learning-rate", "0.1", "--epochs", "2").recipe()
    assert changed.training == Training(steps=80, learning_rate=0.1, learning_rate_decay=0.0)
    assert (changed.epochs, changed.sequences_per_step) == (2, PAPER.sequences_per_step)


def test_a_setting_goes_to_the_kinds_that_have_it() -> None:
    flags = (
        "--recipe",
        "small",
        "--prior",
        "atomic",
        "composite",
        "topk",
        "--n-active",
        "8",
        "--atoms-per-latent",
        "4",
    )
    atomic, composite, topk = cells_of(*flags, "--same-factors", "--lens", "paper")
    assert atomic.settings == Atomic(n_latents=1024, lens="paper", same_factors=True)
    assert composite.settings == Composite(n_latents=1024, lens="paper", same_factors=True, atoms_per_latent=4.0)
    assert topk.settings.n_active == 8


def test_alpha_is_the_weight_of_the_density() -> None:
    made = cells_of("--recipe", "small", "--prior", "atomic", "topk", "--alpha", "0", "0.5", "--seeds", "1", "2")
    found = [(cell.settings.kind, {term.name: term.weight for term in cell.loss}["density"]) for cell in made]
    assert found == [("atomic", 0.0)] * 2 + [("atomic", 0.5)] * 2 + [("topk", 0.0)] * 2


def test_the_loss_is_changed_by_name() -> None:
    (cell,) = cells_of("--recipe", "small", "--loss", "density=0.1", "density.warmup=3", "error.top=none", "overlap=0")
    terms = {term.name: term for term in cell.loss}
    assert (terms["density"].weight, terms["density"].warmup) == (0.1, 3)
    assert (terms["error"].top, terms["overlap"].weight) == (None, 0.0)


def test_words_of_a_loss_are_numbers_switches_none_or_text() -> None:
    words = ("a=1", "a.b=1e-3", "c=none", "d=True", "e=some=thing")
    assert loss_changes(words) == {"a": 1, "a.b": 1e-3, "c": None, "d": True, "e": "some=thing"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--prior topk --no-symmetric --lens paper", "--lens, --symmetric has no meaning for --prior topk"),
        ("--prior topk --alpha 0.5", "--alpha has no meaning for --prior topk; leave it out"),
        (
            "--prior atomic quadratic --initial-density 0.1",
            "--initial-density has no meaning for --prior atomic quadra",
        ),
        ("--n-active 8", "--n-active has no meaning for --prior composite"),
        ("--prior composit", "'composit' is not a known kind of dictionary (atomic, composite,"),
        ("--loss density", "--loss density is not NAME=VALUE"),
        ("--loss densty=0.1", "has the term 'densty', which is unknown (error, density, overlap,"),
        ("--loss density.warm=3", "the term density has weight, warmup, and no warm"),
        ("--loss density=-1", "the weight -1.0 of density is not a finite number ≥ 0"),
        ("--loss density=0.1 --alpha 0.2", "--alpha and --loss density=… both give the weight"),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(
    flags: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--d-model", "8", "--n-latents", "16", *flags.split()]) == 1
    assert message in only_complaint(capsys.readouterr().err)


def test_a_kind_and_a_term_of_the_users_own_have_flags(own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_files(["train", "--import", str(own_file), "--steps", "3"]) == ["train", "--steps", "3"]
    flags = ("--recipe", "small", "--prior", "gated", "--gate", "0.25", "--loss", "loud=0.1", "loud.limit=2")
    (cell,) = cells_of(*flags)
    assert (cell.settings.kind, cell.settings.gate) == ("gated", 0.25)
    assert (cell.loss[-1].weight, cell.loss[-1].limit) == (0.1, 2.0)
    with pytest.raises(SystemExit):
        main(["train", "--import", str(own_file), "--help-all"])
    page = capsys.readouterr().out
    assert "Where the gate opens." in page
    assert "gated" in page.partition("--alpha")[0]  # among the choices of --prior


def test_what_was_imported_belongs_to_the_command_that_continues() -> None:
    assert parse("--import", "a.py", "--import", "of mine.py").imports == " --import a.py --import 'of mine.py'"


@pytest.mark.parametrize("command", [["train"], ["evaluate", "runs/x"]])
def test_every_command_imports_first(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import quadric\nquadric.Nothing\n")
    assert main([*command, "--import", str(broken)]) == 1
    assert "broken.py failed with AttributeError: module 'quadric' has no" in only_complaint(capsys.readouterr().err)
    assert main([*command, "--import", str(tmp_path / "missing.py")]) == 1
    assert "missing.py: there is no such file" in only_complaint(capsys.readouterr().err)
