"""run.json holds every setting of a run, and other keys are refused."""

import json

import pytest

from quadric.data import ActivationConfig
from quadric.model import Atomic
from quadric.run.config import FORMAT_VERSION, RunConfig, check_enough, read_run_config, write_run_config
from quadric.run.recipes import SMALL, run_of
from quadric.train import Cell, Training


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return run_of(SMALL, ActivationConfig(hook_points="3,15"), ("composite", "topk"), seeds=(0, 1), cache="somewhere")


def test_a_config_survives_writing_and_reading(config, tmp_path):
    write_run_config(config, tmp_path)
    assert read_run_config(tmp_path) == config
    assert len(config.cells) == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="other"), "does not describe a run"),
        (lambda c: c.update(format_version=FORMAT_VERSION + 1), f"format version {FORMAT_VERSION + 1}, newer"),
        (lambda c: c.update(format_version=8), r"written by an earlier Quadric \(format 8\).* load as before: quadric"),
        (lambda c: c.update(speed=1), r"unknown keys \['speed'\]"),
        (lambda c: c["training"].update(stepps=1), r"training has unknown keys \['stepps'\]"),
        (lambda c: c["training"].pop("steps"), r"training lacks the keys \['steps'\]"),
        (lambda c: c["training"].update(steps="9"), "steps='9' is not a whole number"),
        (lambda c: c["training"].update(steps=3), r"density.warmup=9 exceeds steps=3"),
        (lambda c: c["activations"]["corpus"].update(block_length=1), "block_length=1 is too short"),
        (lambda c: c["cells"][1]["settings"].update(lens=3), r"cells\[1\]: lens=3 is not 'paper' or 'affine'"),
        (lambda c: c["cells"][0].update(kind="cubic"), "'cubic' is not a known kind"),
        (lambda c: c.pop("cells"), "has no list of cells; restore it"),
        (lambda c: c.update(cells=[]), "there is no dictionary to train; give at least one kind"),
        (lambda c: c["cells"].append(c["cells"][0]), "twice; give them different seeds"),
        (lambda c: c.update(epochs=0), "epochs=0 is not positive"),
    ],
)
def test_a_faulty_file_is_refused(change, message, config, tmp_path):
    write_run_config(config, tmp_path)
    path = tmp_path / "run.json"
    record = json.loads(path.read_text())
    record["cells"][0]["loss"][-2]["warmup"] = 9
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=message):
        read_run_config(tmp_path)


def test_a_folder_without_a_config_is_an_error_with_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match="quadric train"):
        read_run_config(tmp_path)


def test_too_little_text_is_an_error_with_the_epochs_needed():
    config = RunConfig(
        activations=ActivationConfig(hook_points="3"),
        cells=(Cell(hook_point="resid_pre.3", settings=Atomic()),),
        training=Training(steps=10),
        sequences_per_step=4,
        epochs=2,
    )
    check_enough(20, config, "it")
    with pytest.raises(ValueError, match=r"it has 13 sequences.*give epochs=4, at most 6 steps"):
        check_enough(13, config, "it")
