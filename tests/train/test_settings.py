"""How dictionaries are trained, and cells of a run: what is refused, what is stored, and what a folder is called."""

import json
from itertools import product

import pytest

from quadric.model import (
    Atomic,
    BatchTopK,
    Composite,
    Density,
    Error,
    Mean,
    Overlap,
    Quadratic,
    ReLU,
    SquaredError,
    TopK,
    paper_loss,
)
from quadric.train import Cell, Training
from tests.model.test_settings import Projection, SharperTopK
from tests.model.test_terms import Sparse


def test_what_is_left_out_follows_from_the_rest():
    assert Training().momentum == 0.95
    assert [Training(steps=n).steps_between_checkpoints for n in (1, 8, 300, 2048)] == [1, 2, 75, 256]
    assert Training(checkpoint_every=7).steps_between_checkpoints == 7


def test_the_learning_rate_is_that_of_the_kind_and_falls_unless_it_is_given():
    training, kind = Training().resolved(TopK(), 576), Composite()
    assert (training.rate, training.decay) == (0.06, 0.5)
    assert Training().resolved(kind, 576).rate == 0.1
    assert Training(learning_rate=0.3).resolved(kind, 576) == Training(learning_rate=0.3, learning_rate_decay=0.5)
    assert Training(learning_rate_decay=0.0).resolved(kind, 576).decay == 0


def test_many_atoms_lower_the_learning_rate():
    large = Composite(n_latents=65_536)
    assert large.starts_sparse
    assert Training().resolved(large, 1024).rate * (large.atoms / 1024) ** 0.5 == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps=0 is not positive; give at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every=0 is not positive"),
        ({"keep_checkpoints": 0}, "keep_checkpoints=0 is not positive"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must exceed 0 .* the paper uses 0.03 and 0.95"),
        ({"momentum": 1.0}, r"momentum=1.0 lie in \[0, 1\)"),
        ({"learning_rate_decay": 1.5}, r"learning_rate_decay=1.5 is outside \[0, 1\]; it is the share of the steps"),
        ({"learning_rate_decay": -0.1}, r"learning_rate_decay=-0.1 is outside \[0, 1\]"),
        ({"learning_rate_decay": float("nan")}, "learning_rate_decay=nan is not a finite number or None"),
    ],
)
def test_impossible_training_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Training(**arguments)


def test_a_schedule_that_is_longer_than_the_training_is_refused():
    Training(steps=500).check_loss(paper_loss())
    with pytest.raises(ValueError, match=r"density.warmup=600 exceeds steps=500; shorten the warm-up, or leave it out"):
        Training(steps=500).check_loss((Error(), Density(warmup=600)))


CELLS = [
    Cell(settings=settings, loss=loss, hook_point=hook_point, seed=seed)
    for hook_point, seed in product(("resid_pre.1", "resid_pre.2"), (0, 1))
    for settings, loss in [
        *(
            (Composite(n_latents=32, **change), ())
            for change in (
                {}, {"n_hidden": 40}, {"atoms_per_latent": 4.0}, {"initial_density": 0.5}, {"lens": "paper"},
                {"same_factors": True}, {"symmetric": False}, {"init": "xavier"}, {"atoms_per_latent": 4.0000001},
            )
        ),
        *(
            (Composite(n_latents=32), loss)
            for loss in (
                paper_loss(), paper_loss(0.123456789), paper_loss(0.123456788), (Error(),), (Error(top=3),),
                (Error(), Density(0.3, warmup=4)), (Error(), Overlap()), (Mean(), Error()), (Error(), Sparse()),
                (Error(), Sparse(power=2.0)), (Error(), Density(0.0)),
            )
        ),
        (Quadratic(n_latents=32), ()), (Quadratic(n_latents=32, n_hidden=1_234_567), ()),
        (Quadratic(n_latents=32, n_hidden=1_234_568), ()), (Atomic(n_latents=32), ()), (TopK(n_latents=32), ()),
        (TopK(n_latents=32, n_active=8), ()), (BatchTopK(n_latents=32, n_active=8), ()),
        (TopK(n_latents=32, n_active=8), (SquaredError(), Density(0.1))), (SharperTopK(n_latents=32), ()),
        (Projection(n_latents=32), ()), (Projection(n_latents=32, rows=(1, 2)), ()),
    ]
]  # fmt: skip


def test_cells_come_back_from_json_and_have_names_of_their_own_that_can_be_folders(tmp_path):
    for cell in CELLS:
        assert Cell.from_json(json.loads(json.dumps(cell.as_json())), "run.json") == cell
        (tmp_path / cell.name).mkdir()
    assert len(set(tmp_path.iterdir())) == len({cell.name for cell in CELLS}) == len(CELLS)


def test_a_name_says_what_differs_from_the_defaults():
    composite = Composite(n_latents=64, lens="paper", atoms_per_latent=4.0, same_factors=True)
    cell = Cell(hook_point="resid_pre.15", settings=composite, loss=(Error(top=8), Density(0.1)), seed=2)
    assert cell.name == (
        "resid_pre.15-composite-k64-lens-paper-same_factors-True-atoms_per_latent4-errortop8-density0.1-seed2"
    )
    assert Cell(settings=TopK(), loss=(SquaredError(),)).name == "rows-topk-k512-noerror-nodensity-seed0"
    assert Cell(settings=Atomic(), hook_point="a/b c").name == "a_b_c-atomic-k512-seed0"
    assert Cell(settings=Atomic(), name="mine").name == "mine", "as it is stored"
    assert Cell(settings=Atomic()).loss == Atomic().default_loss()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cell(settings=ReLU()), "a relu is trained elsewhere and only read here; choose another kind"),
        (lambda: Cell(settings=TopK(), loss=(Overlap(),)), "needs the forms of quadratic latents; a topk has none"),
        (lambda: Cell(settings=TopK(), seed=-1), r"seed=-1 is not a whole number from 0 to 4294967295"),
        (lambda: Cell(settings=TopK(), seed=2**32), "seed=4294967296 is not a whole number"),
        (lambda: Cell(settings=TopK(), name="../up"), r"name='../up' is not the name of a folder; use letters"),
        (lambda: Cell(settings=TopK(), name=".hidden"), "is not the name of a folder"),
    ],
)
def test_an_impossible_cell_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(speed=1), r"run.json has unknown keys \['speed'\]"),
        (lambda c: c.pop("seed"), r"run.json lacks the keys \['seed'\]"),
        (lambda c: c.update(kind="cubic"), "run.json: 'cubic' is not a known kind .* import"),
        (lambda c: c.update(loss="error"), "run.json: the loss is not a list; restore the file"),
        (lambda c: c["loss"][0].update(name="theirs"), "loss has the term 'theirs', which is unknown .* import the"),
        (lambda c: c["loss"][0].update(power=2), r"loss has unknown keys \['power'\]"),
        (lambda c: c["settings"].update(n_latents="many"), "n_latents='many' is not a whole number"),
        (lambda c: c["settings"].update(n_latents=0), "n_latents=0 is not positive"),
        (lambda c: c.update(name="../elsewhere"), "is not the name of a folder"),
    ],
)
def test_a_damaged_cell_is_refused_in_one_line(change, message):
    stored = json.loads(json.dumps(CELLS[0].as_json()))
    change(stored)
    with pytest.raises(ValueError, match=message) as refusal:
        Cell.from_json(stored, "run.json")
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match=r"run.json is not an object; restore the file"):
        Cell.from_json([], "run.json")
