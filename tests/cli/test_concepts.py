"""`quadric concepts` on a tiny model: every concept, every autoencoder, as a table, CSV and JSON."""

import csv
import json
from pathlib import Path

import pytest
import torch

from quadric.cli import main
from quadric.data import (
    ActivationConfig,
    BatchSize,
    LiveStream,
    TokenRules,
    find_model,
    load_model,
    parse_hook_point,
)
from quadric.data.corpus import CorpusConfig
from quadric.data.forward import capture
from quadric.evidence.concepts import CONCEPTS, Concept
from quadric.evidence.concepts.finding import concept_vectors, corpus_vectors, word_tokens
from tests.tiny_runs import make_tiny_world, train_command

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_tiny_world(tmp_path_factory.mktemp("world"))
    assert main(train_command(folder, folder / "run", "--prior", "composite", "topk")) == 0
    return folder


def test_every_concept_is_looked_for_in_every_autoencoder(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["concepts", str(world / "run"), "--model", str(world / "tiny-llama"), "--corpus", str(world / "text.txt")]
    assert main([*where, "--corpus-tokens", "200", "--json", "--out", str(tmp_path / "c.csv")]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["concept"], row["kind"]) for row in rows] == [
        (concept.name, kind) for concept in CONCEPTS for kind in ("composite", "topk")
    ]
    for row in rows:
        assert 0 < row["captured"] <= row["most"] + 1e-9
        assert row["link"] == (f"#/latent/{row['latent']}" if row["kind"] == "composite" else None)
        assert 0 < row["detected_chance"] < 1
        assert 0 < row["detected"] <= 1
        assert row["detected_sign"] in (1, -1)
    one = next(path.name for path in (world / "run/autoencoders").iterdir() if "topk" in path.name)
    assert main([*where, "--corpus-tokens", "0", "--json", "--name", one]) == 0
    others = json.loads(capsys.readouterr().out)
    assert {(row["autoencoder"], row["detected"]) for row in others} == {(one, None)}
    assert main([*where, "--corpus-tokens", "200"]) == 0
    table = capsys.readouterr().out
    assert all(table.count(concept.name) == 4 for concept in CONCEPTS)
    assert f"{rows[0]['detected']:.1%}" in table
    with (tmp_path / "c.csv").open(newline="") as file:
        stored = list(csv.DictReader(file))
    for column in ("captured", "detected", "detected_chance"):
        assert [float(row[column]) for row in stored] == [row[column] for row in rows]


def test_a_missing_corpus_is_named_and_not_needed_without_detection(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["concepts", str(world / "run"), "--model", str(world / "tiny-llama"), "--corpus", str(world / "gone.txt")]
    assert main(where) == 1
    assert "gone.txt" in capsys.readouterr().err
    assert main([*where, "--corpus-tokens", "0"]) == 0


def test_corpus_tokens_are_those_of_the_stream_and_words_are_marked(world: Path) -> None:
    """The corpus says "families" in every sentence; the concept has this word and one that never occurs."""
    corpus = CorpusConfig(source=str(world / "text.txt"), document_separator="\n\n", block_length=32)
    config = ActivationConfig(model=str(world / "tiny-llama"), hook_points="2", corpus=corpus, sequences_per_forward=2)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(tokens=100))
    concept = Concept(name="test", words=("families", "elephants"), beginnings=("All happy",))
    read = corpus_vectors(stream, [concept], 100)
    batch = next(iter(stream))
    vectors = batch.activations["resid_pre.2"]
    torch.testing.assert_close(read.vectors["resid_pre.2"].float(), vectors)
    assert read.is_word.shape == (1, 100)
    ids = word_tokens(stream.model.tokenizer, concept)[0]
    marked = read.is_word[0].nonzero()[:, 0].tolist()
    assert marked
    for row in marked:
        if row >= len(ids) and batch.sequences[row - len(ids) + 1] == batch.sequences[row]:
            assert batch.token_ids[row - len(ids) + 1 : row + 1].tolist() == ids


def test_a_vector_is_that_of_the_words_last_token_whatever_the_padding(world: Path) -> None:
    model = load_model(find_model(str(world / "tiny-llama")), device="cpu")
    point = parse_hook_point("2", model.n_layers)
    concept = CONCEPTS[0]
    found = concept_vectors(model, [point], TokenRules(), concept)["resid_pre.2"]
    for b, w in ((0, 0), (3, 2)):
        (ids,) = model.tokenizer.encode([f"{concept.beginnings[b]} {concept.words[w]}"])
        alone = capture(model, [point], torch.tensor([ids]))["resid_pre.2"][0, -1].double()
        torch.testing.assert_close(found[b, w], alone, atol=1e-5 * float(alone.norm()), rtol=1e-4)


def test_another_model_is_refused(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.data.tiny import save_tiny

    other = save_tiny(tmp_path / "tiny-llama", "gpt2")
    assert main(["concepts", str(world / "run"), "--model", str(other)]) == 1
    assert "search runs of one language model at a time" in capsys.readouterr().err
    assert main(["concepts"]) == 1
    assert "no run was given" in capsys.readouterr().err
