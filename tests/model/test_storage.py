"""What is saved comes back bit by bit, and what is not exactly that is refused, each fault with its own message."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric.model import Provenance
from quadric.model.storage import weights_sha256
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


STORED_BY_0_2 = Path(__file__).with_name("stored_by_0_2")
"""One dictionary of every kind as Quadric 0.2 saved it, and what it computed of some tokens."""


def baselines():
    trained = quadric.BatchTopKAutoencoder(d_model=12, n_latents=40, n_active=5)
    trained.after_step(trained.step(zoo.tokens(dtype=torch.float32)))
    return [quadric.TopKAutoencoder(d_model=12, n_latents=40, n_active=5), trained]


@pytest.fixture
def saved(tmp_path):
    zoo.make("composite sparse storage", torch.float32).save_pretrained(tmp_path / "ae")
    return tmp_path / "ae"


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
    assert (back.settings, back.d_model, back.seed) == (ae.settings, ae.d_model, ae.seed)
    assert not back.training
    for name, tensor in ae.tensors().items():
        assert torch.equal(back.tensors()[name], tensor)
        assert back.tensors()[name].dtype == tensor.dtype
    x = zoo.tokens(dtype=torch.float32)
    assert torch.equal(back.eval().encode(x), ae.eval().encode(x))


def test_config_states_everything_the_weights_do_not(saved):
    config = json.loads((saved / "config.json").read_text())
    assert (config["format_version"], config["package_version"]) == (4, quadric.__version__)
    assert (config["kind"], config["d_model"], config["seed"]) == ("composite", 12, 3)
    assert config["settings"] == {
        "n_latents": 16,
        "lens": "paper",
        "symmetric": True,
        "same_factors": False,
        "init": "orthogonal",
        "n_hidden": 400,
        "atoms_per_latent": pytest.approx(0.009 * 400),
        "initial_density": 0.009,
    }
    assert config["provenance"]["normalisation"] == "unit norm per token"


def make_quadratic(config):
    config["kind"] = "quadratic"
    del config["settings"]["atoms_per_latent"], config["settings"]["initial_density"]


FAULTS = {
    "unknown key": (lambda c: c.update(colour="red"), r"unknown keys \['colour'\]"),
    "unknown setting": (lambda c: c["settings"].update(depth=3), r"settings in .* has unknown keys \['depth'\]"),
    "unknown provenance key": (lambda c: c["provenance"].update(moon=1), r"provenance in .* unknown keys \['moon'\]"),
    "number for a name": (lambda c: c["provenance"].update(model=3), "provenance in .*: model=3 is not text or None"),
    "switch for a number": (lambda c: c.update(seed=True), "seed=True in config.json is not a whole number"),
    "text for a share": (lambda c: c["settings"].update(initial_density="1"), "is not a finite number or None"),
    "impossible setting": (lambda c: c["settings"].update(n_latents=0), "settings in config.json: n_latents=0 is not"),
    "missing setting": (lambda c: c["settings"].pop("init"), r"settings in config.json lacks the keys \['init'\]"),
    "missing key": (lambda c: c.pop("d_model"), r"lacks the keys \['d_model'\]"),
    "other width": (lambda c: c.update(d_model=13), r"'left' has shape \(400, 12\); .* needs \(400, 13\)"),
    "other kind": (make_quadratic, r"the weights hold .*mixing_columns.*; the architecture needs .*'mixing'"),
    "newer format": (lambda c: c.update(format_version=5), "format version 5, newer than the 4 this.*upgrade"),
    "older format": (lambda c: c.update(format_version=2), r"written before Quadric 0.2 \(format 2\); save it again"),
    "foreign format": (lambda c: c.update(format="sae"), "does not describe a Quadric dictionary"),
    "unknown kind": (lambda c: c.update(kind="cubic"), "config.json: 'cubic' is not a known kind .*import"),
    "escaping weights": (lambda c: c["weights"].update(file="../x.safetensors"), "are missing"),
    "missing weights": (lambda c: c["weights"].update(file="x.safetensors"), "are missing"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_config_is_refused(fault, saved):
    change, message = FAULTS[fault]
    edit(saved, change)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        quadric.load(saved)


@pytest.mark.parametrize("name", ["atomic", "composite", "quadratic", "topk", "batch_topk"])
def test_dictionaries_of_0_2_load_as_they_were(name, tmp_path):
    recorded = json.loads((STORED_BY_0_2 / "recorded.json").read_text())
    before, x = recorded["dictionaries"][name], torch.tensor(recorded["tokens"])
    for folder in (STORED_BY_0_2 / name, tmp_path):
        ae = quadric.load(folder)
        assert (ae.kind, weights_sha256(ae)) == (name, before["weights_sha256"])
        assert_close(ae.encode(x), torch.tensor(before["latents"]), rtol=1e-5, atol=1e-6)
        assert_close(ae.error(x), torch.tensor(before["error"]), rtol=1e-5, atol=1e-6)
        ae.save_pretrained(tmp_path)  # in today's format
    old = json.loads((STORED_BY_0_2 / name / "config.json").read_text())
    assert (ae.seed, vars(ae.provenance)) == (old["architecture"]["seed"], old["provenance"])
    if name in ("atomic", "composite", "quadratic"):
        assert ae.same_factors == old["architecture"]["tied"]
        assert ae.mixing_density == pytest.approx(old["architecture"]["mixing_density"] or ae.mixing_density)


@pytest.mark.parametrize("change", [{"mixing_density": "much"}, {"n_hidden": None}, {"tied": 1}, {"lens": "convex"}])
def test_a_damaged_dictionary_of_0_2_is_refused_in_one_line(change, tmp_path):
    shutil.copytree(STORED_BY_0_2 / "composite", tmp_path / "ae")
    edit(tmp_path / "ae", lambda config: config["architecture"].update(change))
    with pytest.raises(ValueError, match=r"config.json.*(save it again|was the file edited|choose one of)") as refusal:
        quadric.load(tmp_path / "ae")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("weights-*", lambda blob: blob[:-100], r"truncated: \d+ of \d+ bytes"),
        ("weights-*", lambda blob: blob[:-7] + bytes([blob[-7] ^ 1]) + blob[-6:], "changed after it was saved"),
        ("config.json", lambda blob: b'{"format": ', "not valid JSON"),
    ],
)
def test_damaged_files_are_refused(saved, file, damage, message):
    (path,) = saved.glob(file)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        quadric.load(saved)


def test_entries_out_of_place_are_refused():
    ae = zoo.make("composite sparse storage")
    for name, place in (("mixing_columns", 400), ("mixing_rows", -1)):
        tensors = {**ae.tensors(), name: ae.tensors()[name].clone()}
        tensors[name][-1] = place
        with pytest.raises(ValueError, match="not distinct, sorted positions"):
            ae.settings.restore(ae.d_model, tensors)


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
    with pytest.raises(ValueError, match="does not describe a Quadric dictionary"):
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


@pytest.mark.parametrize("name", ["../victim", "/{absolute}", "notes.txt", "./../ae/notes.txt"])
def test_saving_over_a_hostile_config_deletes_nothing_but_weights(saved, name):
    victim, notes = saved.parent / "victim", saved / "notes.txt"
    victim.write_text("precious")
    notes.write_text("mine")
    edit(saved, lambda config: config["weights"].update(file=name.replace("/{absolute}", str(victim))))
    zoo.make("atomic", torch.float32).save_pretrained(saved)
    assert (victim.read_text(), notes.read_text()) == ("precious", "mine")
    quadric.load(saved)


@pytest.mark.parametrize("name", ["../victim", "", ".", "..", "weights\0.safetensors", "a/b"])
def test_weights_outside_the_folder_are_not_read(saved, name):
    (saved.parent / "victim").write_bytes(next(saved.glob("weights-*")).read_bytes())
    edit(saved, lambda config: config["weights"].update(file=name))
    with pytest.raises(FileNotFoundError, match="are missing; fetch them"):
        quadric.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_even_with_a_valid_hash(saved, value):
    ae = quadric.load(saved)
    with torch.no_grad():
        ae.left[0, 0] = value
    ae.save_pretrained(saved)
    with pytest.raises(ValueError, match=r"'left' in .* holds values that are not finite; train the dictionary again"):
        quadric.load(saved)


def test_a_baseline_whose_threshold_is_not_set_yet_can_be_loaded(tmp_path):
    quadric.BatchTopKAutoencoder(d_model=12, n_latents=40, n_active=5).save_pretrained(tmp_path)
    assert quadric.load(tmp_path).threshold.isnan()
