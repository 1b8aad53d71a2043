"""`quadric compare`: matrices over runs, from the command line."""

import json

import pytest
import torch

import quadric
from quadric.cli import main
from quadric.geometry import frobenius_similarity
from quadric.model import Provenance, TopKAutoencoder
from tests.geometry.examples import planted_shapes, trained
from tests.interop.foreign_folders import saelens_tensors, write_saelens


@pytest.fixture
def runs(tmp_path):
    for name, ae in {"a": trained(), "b": trained("atomic"), "c": planted_shapes()}.items():
        ae.save_pretrained(tmp_path / name)
    return [str(tmp_path / name) for name in "abc"]


def test_it_prints_matrices_and_writes_a_picture(runs, tmp_path, capsys):
    assert main(["compare", *runs, "--out", str(tmp_path / "c.png"), str(tmp_path / "c.json")]) == 0
    text = capsys.readouterr().out
    assert "Sim_F" in text
    assert "Sim_H" in text
    assert f"{frobenius_similarity(trained(), trained('atomic')):.3f}" in text
    assert (tmp_path / "c.png").stat().st_size > 5000
    assert json.loads((tmp_path / "c.json").read_text())["runs"] == runs


def test_json_is_for_programs(runs, capsys):
    assert main(["compare", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["matrices"]["frobenius"][0][1] == frobenius_similarity(trained(), trained("atomic"))
    assert len(found["pairs"]) == 3


def test_the_autoencoders_of_one_run_are_compared(tmp_path, capsys):
    made = {"first": trained(), "second": trained("atomic"), "third": trained(seed=1)}
    for name, ae in made.items():
        ae.save_pretrained(tmp_path / "run/autoencoders" / name)
    TopKAutoencoder(d_model=trained().d_model, n_latents=8, n_active=2).save_pretrained(tmp_path / "run/autoencoders/x")
    run = str(tmp_path / "run")
    assert main(["compare", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [f"{run}/{name}" for name in made]
    assert main(["compare", run, "--name", "first", "third", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [f"{run}/first", f"{run}/third"]
    assert main(["compare", run, "--name", "first", "fourth"]) == 1
    assert "none of them named 'fourth'" in capsys.readouterr().err


def test_mistakes_are_one_line(runs, tmp_path, capsys):
    assert main(["compare", runs[0]]) == 1
    assert "1 autoencoder given; name at least two" in capsys.readouterr().err
    assert main(["compare", *runs, "--out", "c.pdf"]) == 1
    assert "choose one of .json, .png" in capsys.readouterr().err
    for name in "xy":
        ae = planted_shapes()
        ae.provenance = Provenance(hook_point=f"layer {name}")
        ae.save_pretrained(tmp_path / name)
    different = [str(tmp_path / name) for name in "xy"]
    assert main(["compare", *different]) == 1
    assert "hook_point 'layer y' and 'layer x' differ" in capsys.readouterr().err
    assert main(["compare", *different, "--force"]) == 0


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--help"])
    assert stop.value.code == 0
    assert "Example: quadric compare " in capsys.readouterr().out


def test_folders_of_other_libraries_are_compared_as_rank_one_forms(tmp_path, capsys):
    """The same directions in another order are the same dictionary; a bilinear one of these forms is it as well."""
    weights = saelens_tensors()
    d, k = weights["W_enc"].shape
    order = torch.randperm(k, generator=torch.Generator().manual_seed(0))
    write_saelens(tmp_path / "sae", weights, architecture="standard")
    shuffled = weights | {"W_dec": weights["W_dec"][order]}
    write_saelens(tmp_path / "shuffled", shuffled, architecture="topk", k=5)
    forms = quadric.BilinearAutoencoder(d_model=d, n_latents=k, prior="atomic", same_factors=True)
    with torch.no_grad():
        forms.left.copy_(weights["W_dec"])
    forms.save_pretrained(tmp_path / "forms")
    assert main(["compare", *(str(tmp_path / name) for name in ("sae", "shuffled", "forms")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["matrices"]["frobenius"] == [[pytest.approx(1, abs=1e-5)] * 3] * 3
    assert found["pairs"][0]["matched"]["partners"] == order.argsort().tolist()
    assert found["pairs"][0]["random_initialization"]["frobenius"] < 0.9
