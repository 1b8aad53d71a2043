"""Activations of texts: in the order of the texts, pooled as the plain sum says, and read once."""

from pathlib import Path

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.explanations.reading import TextReader
from quadric.model import Provenance
from quadric.model.objective import unit_tokens
from quadric.studies.probing.labelled import LabelledSet
from quadric.studies.probing.vectors import TextVectors, pooled, read_vectors, vectors_of_rows
from tests.data.tiny import D_MODEL, tiny_model

TEXTS = ["a longer text than the others", "ab", "word", "one more", "x"]


def reader() -> TextReader:
    made_by = Provenance(hook_point="resid_pre.2", packing="packed", block_length=64)
    return TextReader(
        tiny_model(), BilinearAutoencoder(d_model=D_MODEL, n_latents=4, prior="atomic", provenance=made_by)
    )


def labelled(texts: list[str] = TEXTS) -> LabelledSet:
    return LabelledSet(name="set", kind="continuous", texts=texts, labels=list(range(len(texts))))


def test_every_text_gets_its_own_tokens_whatever_the_order_of_reading() -> None:
    found = read_vectors(reader(), labelled(), most_tokens=64)
    owners = found.owners
    for number, text in enumerate(TEXTS):
        (alone,) = reader().read([text])
        torch.testing.assert_close(
            found.unit()[owners == number], unit_tokens(alone.vectors.float()), atol=2e-3, rtol=2e-3
        )


def test_only_the_end_of_a_long_text_is_read() -> None:
    found = read_vectors(reader(), labelled(), most_tokens=4)
    assert found.counts.tolist() == [4, 2, 4, 4, 1]
    (alone,) = reader().read(["hers"])
    torch.testing.assert_close(found.unit()[:4], unit_tokens(alone.vectors.float()), atol=2e-3, rtol=2e-3)


def test_pooling_is_the_last_token_or_the_mean() -> None:
    vectors = TextVectors(torch.randn(6, 3).half(), torch.rand(6), torch.tensor([1, 3, 2]))
    features = torch.randn(6, 5)
    expected = torch.stack([features[:1].mean(0), features[1:4].mean(0), features[4:].mean(0)])
    torch.testing.assert_close(pooled(features, vectors), expected)
    last = vectors.of_tokens("last")
    assert torch.equal(last.directions, vectors.directions[[0, 3, 5]])
    assert torch.equal(last.lengths, vectors.lengths[[0, 3, 5]])
    assert vectors.of_tokens("mean") is vectors


def test_texts_without_a_token_are_found() -> None:
    vectors, kept = TextVectors(torch.randn(3, 2).half(), torch.rand(3), torch.tensor([2, 0, 1])).without_empty()
    assert kept.tolist() == [True, False, True]
    assert vectors.owners.tolist() == [0, 0, 1]


def test_rows_are_texts_of_one_token() -> None:
    rows = 7 * torch.randn(4, 8)
    found = vectors_of_rows(rows)
    torch.testing.assert_close(found.unit(), unit_tokens(rows), atol=1e-3, rtol=1e-3)
    assert found.counts.tolist() == [1] * 4


def test_the_cache_answers_without_the_model_and_only_for_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = reader()
    first = read_vectors(own, labelled(), most_tokens=64, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(TextReader, "read", lambda *a, **k: pytest.fail("the model was asked again"))
    again = read_vectors(own, labelled(), most_tokens=64, cache=tmp_path)
    assert torch.equal(first.at_own_length(), again.at_own_length())
    for changed in ({"labelled": labelled([*TEXTS[:4], "y"])}, {"most_tokens": 63}):
        with pytest.raises(pytest.fail.Exception):
            read_vectors(own, **{"labelled": labelled(), "most_tokens": 64} | changed, cache=tmp_path)  # type: ignore[arg-type]


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    own = reader()
    read_vectors(own, labelled(), most_tokens=64, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"not readable .* delete it and run again"):
        read_vectors(own, labelled(), most_tokens=64, cache=tmp_path)


def test_activations_keep_their_length() -> None:
    rows = 40 * torch.randn(30, 8)
    vectors = vectors_of_rows(rows)
    torch.testing.assert_close(vectors.at_own_length(), rows, rtol=2e-3, atol=2e-2)
    torch.testing.assert_close(vectors.unit().norm(dim=1), torch.ones(30))
