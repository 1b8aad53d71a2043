"""Counts of documents, words, tokens and topics are correct."""

import json
from pathlib import Path

import pytest

from quadric.data.corpus import CorpusConfig, CorpusError, corpus_statistics
from quadric.data.corpus.blocks import is_held_out
from quadric.data.corpus.sources import read_documents


class Words:
    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]


@pytest.fixture
def config(tmp_path: Path) -> CorpusConfig:
    path = tmp_path / "a.jsonl"
    records = [{"text": "word " * (number % 7 + 1), "kind": "odd" if number % 2 else "even"} for number in range(600)]
    path.write_text("\n".join(map(json.dumps, records)))
    return CorpusConfig(source=str(path), topic_field="kind", held_out_fraction=0.5)


def test_everything_is_counted_once(config: CorpusConfig) -> None:
    statistics = corpus_statistics(config, Words())
    words = sum(number % 7 + 1 for number in range(600))
    assert (statistics.documents, statistics.words, statistics.tokens) == (600, words, words)
    assert (statistics.characters, statistics.shortest, statistics.longest) == (5 * words, 5, 35)
    assert statistics.topics == {"odd": 300, "even": 300}
    assert statistics.held_out_documents == sum(is_held_out(each, 0.5) for each in read_documents(config))
    assert corpus_statistics(config).tokens is None


@pytest.mark.parametrize("limit", [1, 256, 300])
def test_limit_bounds_the_number_of_documents(config: CorpusConfig, limit: int) -> None:
    assert corpus_statistics(config, limit=limit).documents == limit


def test_an_empty_corpus_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(CorpusError, match="has no text"):
        corpus_statistics(CorpusConfig(source=str(tmp_path)))
