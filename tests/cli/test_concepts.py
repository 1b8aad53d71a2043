"""`quadric concepts` on a tiny model: every concept, every autoencoder, as a table, CSV and JSON."""

import csv
import json
from pathlib import Path

import pytest

from quadric.activations import TokenRules, find_model, load_model, parse_hook_point
from quadric.activations.capture import capture
from quadric.cli import main
from quadric.concepts import CONCEPTS
from quadric.concepts.reading import concept_vectors
from tests.tiny_runs import make_tiny_world, train_command


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_tiny_world(tmp_path_factory.mktemp("world"))
    assert main(train_command(folder, folder / "run", "--prior", "composite", "topk")) == 0
    return folder


def test_every_concept_is_looked_for_in_every_autoencoder(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(world / "tiny-llama")
    assert main(["concepts", str(world / "run"), "--model", model, "--json", "--out", str(tmp_path / "c.csv")]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["concept"], row["kind"]) for row in rows] == [
        (concept.name, kind) for concept in CONCEPTS for kind in ("composite", "topk")
    ]
    for row in rows:
        assert 0 < row["captured"] <= row["most"] + 1e-9
        assert row["link"] == (f"#/latent/{row['latent']}" if row["kind"] == "composite" else None)
    one = next(path.name for path in (world / "run/autoencoders").iterdir() if "topk" in path.name)
    assert main(["concepts", str(world / "run"), "--model", model, "--json", "--name", one]) == 0
    assert {row["autoencoder"] for row in json.loads(capsys.readouterr().out)} == {one}
    assert main(["concepts", str(world / "run"), "--model", model]) == 0
    table = capsys.readouterr().out
    assert all(concept.name in table for concept in CONCEPTS)
    with (tmp_path / "c.csv").open(newline="") as file:
        assert [float(row["captured"]) for row in csv.DictReader(file)] == [row["captured"] for row in rows]


def test_a_vector_is_that_of_the_words_last_token_whatever_the_padding(world: Path) -> None:
    model = load_model(find_model(str(world / "tiny-llama")), device="cpu")
    point = parse_hook_point("2", model.n_layers)
    concept = CONCEPTS[0]
    found = concept_vectors(model, [point], TokenRules(), concept)["resid_pre.2"]
    import torch

    for b, w in ((0, 0), (3, 2)):
        (ids,) = model.tokenizer.encode([f"{concept.beginnings[b]} {concept.words[w]}"])
        alone = capture(model, [point], torch.tensor([ids]))["resid_pre.2"][0, -1].double()
        torch.testing.assert_close(found[b, w], alone / alone.norm(), atol=1e-5, rtol=1e-4)


def test_another_model_is_refused(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.activations.tiny import save_tiny

    other = save_tiny(tmp_path / "tiny-llama", "gpt2")
    assert main(["concepts", str(world / "run"), "--model", str(other)]) == 1
    assert "search runs of one language model at a time" in capsys.readouterr().err
    assert main(["concepts"]) == 1
    assert "no run was given" in capsys.readouterr().err
