"""What is saved comes back bit by bit, and what is not exactly that is refused, each fault with its own message."""

import json
import os
from pathlib import Path

import pytest
import torch

import quadric
from quadric._io.files import write_atomically
from quadric.model import Provenance
from tests import zoo

PROVENANCE = Provenance(
    model="org/model",
    model_revision="abc123",
    hook_point="resid_pre.15",
    tokenizer_fingerprint="sha256:0f",
    corpus="text/*.jsonl",
    corpus_revision="sha256:1e",
    token_rules={"special_tokens": "drop", "outliers": "drop", "outlier_factor": 10.0},
)


def baselines():
    trained = quadric.BatchTopKAutoencoder(d_model=12, n_latents=40, n_active=5)
    trained.loss(zoo.tokens(dtype=torch.float32))
    return [quadric.TopKAutoencoder(d_model=12, n_latents=40, n_active=5), trained]


@pytest.fixture
def saved(tmp_path):
    zoo.make("composite sparse storage", torch.float32).save_pretrained(tmp_path / "ae")
    return tmp_path / "ae"


def weights_of(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


def edit(folder: Path, change) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("variety", [*zoo.VARIETIES, "topk", "batch_topk"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_round_trip_is_exact(variety, dtype, tmp_path):
    linear = dict(zip(("topk", "batch_topk"), baselines(), strict=True))
    ae = linear[variety].to(dtype) if variety in linear else zoo.make(variety, dtype)
    ae.provenance = PROVENANCE
    ae.save_pretrained(tmp_path / "ae")
    back = quadric.load(tmp_path / "ae")
    assert type(back) is type(ae)
    assert back.provenance == PROVENANCE
    assert back.architecture == ae.architecture
    assert not back.training
    for name, tensor in ae.tensors().items():
        assert torch.equal(back.tensors()[name], tensor)
        assert back.tensors()[name].dtype == tensor.dtype
    x = zoo.tokens(dtype=torch.float32)
    assert torch.equal(back.eval().encode(x), ae.eval().encode(x))


def test_config_states_everything_the_weights_do_not(saved):
    config = json.loads((saved / "config.json").read_text())
    assert config["format_version"] == 3
    assert config["package_version"] == quadric.__version__
    assert config["architecture"] == {
        "d_model": 12,
        "n_latents": 16,
        "n_hidden": 400,
        "prior": "composite",
        "mixing_density": 58 / 6400,
        "symmetric": True,
        "tied": False,
        "init": "orthogonal",
        "seed": 3,
        "lens": "paper",
    }
    assert config["provenance"]["normalisation"] == "unit norm per token"


def set_shape(config):
    config["architecture"]["d_model"] = 13


FAULTS = {
    "unknown key": (lambda c: c.update(colour="red"), r"unknown keys \['colour'\]"),
    "unknown architecture key": (lambda c: c["architecture"].update(depth=3), "architecture in .* has unknown keys"),
    "unknown provenance key": (lambda c: c["provenance"].update(moon=1), r"provenance in .* unknown keys \['moon'\]"),
    "number for a name": (lambda c: c["provenance"].update(model=3), "provenance in .*: model=3 is not str or null"),
    "no normalisation": (lambda c: c["provenance"].update(normalisation=None), "normalisation=None.* is not str"),
    "size of another type": (lambda c: c["architecture"].update(n_hidden=400.0), "n_hidden=400.0.* is not int"),
    "number for a switch": (lambda c: c["architecture"].update(same_factors=1), "same_factors=1.* is not bool"),
    "switch for a number": (lambda c: c["architecture"].update(seed=True), "seed=True.* is not int"),
    "null for a prior": (lambda c: c["architecture"].update(prior=None), "prior=None.* is not str"),
    "text for a share": (lambda c: c["architecture"].update(mixing_density="1"), "is not float or null"),
    "missing key": (lambda c: c["architecture"].pop("tied"), r"architecture in config.json lacks the keys \['tied'\]"),
    "other shape": (set_shape, r"'left' has shape \(400, 12\); the architecture needs \(400, 13\)"),
    "other prior": (
        lambda c: c["architecture"].update(prior="quadratic", mixing_density=None),
        r"the weights hold .*mixing_columns.*; the architecture needs .*'mixing'",
    ),
    "other density": (lambda c: c["architecture"].update(mixing_density=0.5), "mixing_rows.*has shape"),
    "newer format": (lambda c: c.update(format_version=4), "format version 4, newer than the 3 this.*upgrade"),
    "foreign format": (lambda c: c.update(format="sae"), "does not describe a Quadric autoencoder"),
    "unknown kind": (lambda c: c.update(kind="cubic"), "'cubic' autoencoder; this Quadric knows bilinear, topk"),
    "escaping weights": (lambda c: c["weights"].update(file="../x.safetensors"), "are missing"),
    "missing weights": (lambda c: c["weights"].update(file="x.safetensors"), "are missing"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_config_is_refused(fault, saved):
    change, message = FAULTS[fault]
    edit(saved, change)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        quadric.load(saved)


@pytest.mark.parametrize("place", [0, 1])
def test_linear_dictionaries_of_version_2_load_to_the_same_bits(place, tmp_path):
    ae, x = baselines()[place].eval(), zoo.tokens(dtype=torch.float32)
    with torch.no_grad():
        for parameter in ae.parameters():
            parameter.add_(0.01)
    ae.save_pretrained(tmp_path / "ae")

    def make_older(config):
        config["format_version"] = 2
        for name in ("input", "subtract_decoder_bias"):
            del config["architecture"][name]

    edit(tmp_path / "ae", make_older)
    back = quadric.load(tmp_path / "ae")
    assert back.architecture == ae.architecture
    assert torch.equal(back.encode(x), back.keep(torch.relu((x - ae.decoder_bias) @ ae.encoder.mT + ae.encoder_bias)))
    unit = back.prepare(x)
    assert torch.equal(unit, quadric.model.unit_tokens(x))
    expected = back.decode(back.encode(unit)) * x.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(back.rebuild(x), expected)


def test_truncated_weights_are_refused(saved):
    path = weights_of(saved)
    size = path.stat().st_size
    os.truncate(path, size - 100)
    with pytest.raises(ValueError, match=f"truncated: {size - 100} of {size} bytes"):
        quadric.load(saved)


def test_a_single_flipped_bit_is_refused(saved):
    path = weights_of(saved)
    blob = bytearray(path.read_bytes())
    blob[-7] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ValueError, match="changed after it was saved"):
        quadric.load(saved)


def test_broken_json_is_refused(saved):
    (saved / "config.json").write_text('{"format": ')
    with pytest.raises(ValueError, match="not valid JSON"):
        quadric.load(saved)


def test_entries_out_of_place_are_refused():
    ae = zoo.make("composite sparse storage")
    for name, place in (("mixing_columns", 400), ("mixing_rows", -1)):
        tensors = {**ae.tensors(), name: ae.tensors()[name].clone()}
        tensors[name][-1] = place
        with pytest.raises(ValueError, match="not distinct, sorted positions"):
            type(ae).from_tensors(ae.architecture, tensors)


def test_missing_folders_name_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config\.json.*save_pretrained"):
        quadric.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="give a run, a folder made by save_pretrained, or a hub id"):
        quadric.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="revision='main' is for the hub"):
        quadric.load(tmp_path, revision="main")


def test_saving_again_replaces_the_old_weights(saved):
    ae = zoo.make("quadratic", torch.float32)
    ae.save_pretrained(saved)
    assert torch.equal(quadric.load(saved).left, ae.left)
    assert len(list(saved.iterdir())) == 2


def test_saving_over_a_foreign_config_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="does not describe a Quadric autoencoder"):
        zoo.make("quadratic").save_pretrained(tmp_path)
    assert os.listdir(tmp_path) == ["config.json"]


@pytest.mark.parametrize("survives", [0, 1])
def test_dying_while_saving_leaves_the_old_autoencoder_whole(saved, monkeypatch, survives):
    """The disk fills up at the first or the second file: the folder still loads, as what it was."""
    old = quadric.load(saved)
    replace, calls = Path.replace, []

    def failing(self, target):
        calls.append(target)
        if len(calls) > survives:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match=r"no room for .*free some space"):
        zoo.make("quadratic", torch.float32).save_pretrained(saved)
    monkeypatch.undo()
    assert torch.equal(quadric.load(saved).left, old.left)
    assert not list(saved.glob(".*")), "no half-written file is left behind"


def test_write_atomically_replaces_and_cleans_up(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["../victim", "/{absolute}", "notes.txt", "./../ae/notes.txt"])
def test_saving_over_a_hostile_config_deletes_nothing_but_weights(saved, name):
    victim, notes = saved.parent / "victim", saved / "notes.txt"
    victim.write_text("precious")
    notes.write_text("mine")
    config = json.loads((saved / "config.json").read_text())
    config["weights"]["file"] = name.replace("/{absolute}", str(victim))
    (saved / "config.json").write_text(json.dumps(config))
    zoo.make("atomic", torch.float32).save_pretrained(saved)
    assert (victim.read_text(), notes.read_text()) == ("precious", "mine")
    quadric.load(saved)


@pytest.mark.parametrize("name", ["../victim", "", ".", "..", "weights\0.safetensors", "a/b"])
def test_weights_outside_the_folder_are_not_read(saved, name):
    (saved.parent / "victim").write_bytes(weights_of(saved).read_bytes())
    config = json.loads((saved / "config.json").read_text())
    config["weights"]["file"] = name
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileNotFoundError, match="are missing; fetch them"):
        quadric.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_even_with_a_valid_hash(saved, value):
    ae = quadric.load(saved)
    with torch.no_grad():
        ae.left[0, 0] = value
    ae.save_pretrained(saved)
    with pytest.raises(ValueError, match=r"'left' in .* holds values that are not finite; train the autoencoder again"):
        quadric.load(saved)


def test_an_untrained_baseline_can_be_loaded(tmp_path):
    for number, ae in enumerate(baselines()):
        ae.save_pretrained(tmp_path / str(number))
        quadric.load(tmp_path / str(number))
    quadric.BatchTopKAutoencoder(d_model=12, n_latents=40, n_active=5).save_pretrained(tmp_path / "new")
    quadric.load(tmp_path / "new")
