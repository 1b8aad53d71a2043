"""run.json holds every setting of a run, and other keys are refused."""

import json
from dataclasses import replace
from itertools import product

import pytest

from quadric.data import ActivationConfig
from quadric.run.config import FORMAT_VERSION, RunConfig, check_enough, read_run_config, write_run_config
from quadric.run.recipes import SMALL, Grid, make_run_config
from quadric.train import AutoencoderConfig, TrainingConfig


@pytest.fixture(scope="module")
def config() -> RunConfig:
    grid = Grid(dictionaries=("composite", "topk"), seeds=(0, 1))
    return make_run_config(SMALL, ActivationConfig(hook_points="3,15"), grid, cache="somewhere")


def test_a_config_survives_writing_and_reading(config, tmp_path):
    write_run_config(config, tmp_path)
    assert read_run_config(tmp_path) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="other"), "does not describe a run"),
        (lambda c: c.update(format_version=FORMAT_VERSION + 1), f"format version {FORMAT_VERSION + 1}, newer"),
        (lambda c: c.update(speed=1), r"unknown keys \['speed'\]"),
        (lambda c: c["training"].update(stepps=1), r"training has unknown keys \['stepps'\]"),
        (lambda c: c["training"].pop("steps"), r"training lacks the keys \['steps'\]"),
        (lambda c: c["training"].update(steps="9"), "steps='9' is not int"),
        (lambda c: c["activations"]["corpus"].update(block_length=1), "block_length=1 is too short"),
        (lambda c: c["autoencoders"][1].update(prior=3), r"autoencoders\[1\]: prior=3 is not str"),
        (lambda c: c.update(autoencoders=[]), "no autoencoder to train"),
        (lambda c: c["autoencoders"].append(c["autoencoders"][0]), "twice"),
    ],
)
def test_a_faulty_file_is_refused(change, message, config, tmp_path):
    write_run_config(config, tmp_path)
    path = tmp_path / "run.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=message):
        read_run_config(tmp_path)


@pytest.mark.parametrize(
    ("version", "added"),
    [
        *product([1, 2, 3, 4], ["initial_density"]),
        *product([1, 2, 3, 4, 5], ["gradient_dtype"]),
        *product([1, 2, 3, 4, 5, 6], ["mean_penalty"]),
    ],
)
def test_fields_that_earlier_files_lack_have_the_value_of_that_time(version, added, config, tmp_path):
    write_run_config(config, tmp_path)
    path = tmp_path / "run.json"
    record = json.loads(path.read_text()) | {"format_version": version}
    for each in record["autoencoders"]:
        del each[added]
    path.write_text(json.dumps(record))
    of_that_time = {added: getattr(AutoencoderConfig(hook_point="3"), added)}
    expected = tuple(replace(each, **of_that_time) for each in config.autoencoders)
    assert read_run_config(tmp_path) == replace(config, autoencoders=expected)
    path.write_text(json.dumps(record | {"format_version": FORMAT_VERSION}))
    with pytest.raises(ValueError, match=rf"lacks the keys \['{added}'\]"):
        read_run_config(tmp_path)


@pytest.mark.parametrize("version", range(1, 8))
def test_runs_from_before_the_decay_had_a_constant_learning_rate(version, config, tmp_path):
    decayed = replace(config, training=replace(config.training, learning_rate_decay=0.5))
    write_run_config(decayed, tmp_path)
    assert read_run_config(tmp_path) == decayed
    path = tmp_path / "run.json"
    record = json.loads(path.read_text())
    del record["training"]["learning_rate_decay"]
    path.write_text(json.dumps(record | {"format_version": version}))
    assert read_run_config(tmp_path) == config
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"training lacks the keys \['learning_rate_decay'\]"):
        read_run_config(tmp_path)


def test_a_folder_without_a_config_is_an_error_with_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match="quadric train"):
        read_run_config(tmp_path)


def test_too_little_text_is_an_error_with_the_epochs_needed():
    config = RunConfig(
        activations=ActivationConfig(hook_points="3"),
        autoencoders=(AutoencoderConfig(hook_point="resid_pre.3"),),
        training=TrainingConfig(steps=10, alpha_warmup_steps=1),
        sequences_per_step=4,
        epochs=2,
    )
    check_enough(20, config, "it")
    with pytest.raises(ValueError, match=r"it has 13 sequences.*give epochs=4, at most 6 steps"):
        check_enough(13, config, "it")
