"""Order and split of documents, and the blocks that they are cut into."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric.data.corpus import (
    Block,
    CorpusConfig,
    CorpusError,
    Document,
    TokenBlocks,
    corpus_statistics,
    ordered_documents,
)
from quadric.data.corpus import blocks as blocks_module
from quadric.data.corpus.blocks import is_held_out, shuffled
from quadric.data.corpus.sources import read_documents


class Letters:
    """One token per character."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[ord(character) for character in text] for text in texts]


def blocks_of(texts: list[str], *, bos: int | None = None, separator: int | None = None, **settings: object):
    blocks = TokenBlocks(CorpusConfig(**settings), Letters(), bos=bos, separator=separator)
    documents = [Document(index, text) for index, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "ordered_documents", lambda *_: iter(documents))
        return list(blocks), blocks


texts_strategy = st.lists(st.text("abcde", min_size=1, max_size=40), min_size=1, max_size=80)


@given(texts=texts_strategy, length=st.integers(2, 30), bos=st.sampled_from([None, 1]), sep=st.sampled_from([None, 0]))
def test_packed_blocks_concatenate_the_documents(
    texts: list[str], length: int, bos: int | None, sep: int | None
) -> None:
    expected = [
        (index, token)
        for index, text in enumerate(texts)
        for token in [*map(ord, text), *([] if sep is None else [sep])]
    ]
    span = length - (bos is not None)
    if len(expected) < span:
        with pytest.raises(CorpusError, match=f"fewer than one block of {length}"):
            blocks_of(texts, bos=bos, separator=sep, block_length=length)
        return
    found, blocks = blocks_of(texts, bos=bos, separator=sep, block_length=length)
    assert all(len(block.tokens) == len(block.documents) == length for block in found)
    start = length - span
    assert all(block.tokens[:start] == [1] * start for block in found)
    joined = [pair for block in found for pair in zip(block.documents[start:], block.tokens[start:], strict=True)]
    assert joined == expected[: len(joined)]
    assert blocks.tail_tokens == len(expected) - len(joined) < span


@given(texts=texts_strategy, length=st.integers(2, 30), bos=st.sampled_from([None, 1]))
def test_separate_packing_never_mixes_documents(texts: list[str], length: int, bos: int | None) -> None:
    found, blocks = blocks_of(texts, bos=bos, separator=0, block_length=length, packing="separate")
    start = int(bos is not None)
    rebuilt = [""] * len(texts)
    for block in found:
        assert len(set(block.documents)) == 1
        assert 1 <= len(block.tokens) <= length
        assert block.tokens[:start] == [1] * start
        rebuilt[block.documents[0]] += "".join(map(chr, block.tokens[start:]))
    assert rebuilt == texts
    assert blocks.tail_tokens == 0


def test_packing_of_three_documents_written_out() -> None:
    found, blocks = blocks_of(["abc", "de", "fghij"], separator=0, bos=1, block_length=4)
    assert found[:2] == [Block([1, 97, 98, 99], [0, 0, 0, 0]), Block([1, 0, 100, 101], [0, 0, 1, 1])]
    assert (blocks.documents_read, blocks.tokens_read) == (3, 10)


def test_error_for_a_corpus_shorter_than_one_block_names_its_length() -> None:
    with pytest.raises(CorpusError, match=r"has 6 tokens, fewer than one block of 256; .* packing=separate"):
        blocks_of(["abcdef"])


def test_error_for_an_empty_split_names_the_remedies(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("  ")
    blocks = TokenBlocks(CorpusConfig(source=str(tmp_path)), Letters(), bos=None, separator=None)
    with pytest.raises(CorpusError, match=r"has no text in its train split; .* document_separator"):
        list(blocks)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"block_length": 1}, "block_length=1 is too short"),
        ({"held_out_fraction": 1.0}, r"held_out_fraction=1.0 must be in \[0, 1\)"),
        ({"shuffle_buffer": 0}, "shuffle_buffer=0"),
        ({"held_out_fraction": 0.0, "split": "held_out"}, "held_out_fraction=0 leaves split=held_out empty"),
    ],
)
def test_invalid_settings_are_rejected(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(CorpusError, match=words):
        CorpusConfig(**wrong)


DOCUMENTS = [Document(index, f"text number {index}") for index in range(200)]


@given(buffer=st.integers(1, 300), seed=st.text(max_size=5))
def test_shuffling_is_a_permutation_fixed_by_the_seed(buffer: int, seed: str) -> None:
    once = list(shuffled(DOCUMENTS, buffer, seed))
    assert sorted(once, key=lambda each: each.index) == DOCUMENTS
    assert list(shuffled(DOCUMENTS, buffer, seed)) == once


def test_the_order_is_the_same_on_every_machine() -> None:
    # Recorded once: a change would silently change the documents that stored cursors point to.
    assert [each.index for each in shuffled(DOCUMENTS[:10], 4, "0 0")] == [2, 4, 1, 3, 7, 5, 0, 8, 9, 6]


def test_other_seeds_and_epochs_give_other_orders(tmp_path: Path) -> None:
    for index in range(50):
        (tmp_path / f"{index:02d}.txt").write_text(f"text {index}")

    def order(seed: int | None, epoch: int = 0) -> list[int]:
        config = CorpusConfig(source=str(tmp_path), seed=seed, held_out_fraction=0.0)
        return [each.index for each in ordered_documents(config, epoch)]

    assert order(None) == order(None, epoch=1) == list(range(50))
    assert order(0) == order(0)
    assert len({tuple(order(0)), tuple(order(1)), tuple(order(0, epoch=1))}) == 3
    assert sorted(order(7)) == list(range(50))


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5])
def test_held_out_share_is_close_to_the_requested_fraction(fraction: float) -> None:
    many = [Document(index, f"text {index}") for index in range(4000)]
    share = sum(is_held_out(document, fraction) for document in many) / len(many)
    assert share == pytest.approx(fraction, abs=0.03)


def test_holding_out_depends_on_text_only_and_grows_monotonically_with_the_fraction() -> None:
    for document in DOCUMENTS:
        assert is_held_out(document, 0.3) == is_held_out(Document(document.index + 1, document.text), 0.3)
        assert is_held_out(document, 0.5) or not is_held_out(document, 0.3)


def test_the_two_splits_are_disjoint_and_complete() -> None:
    corpus = {"held_out_fraction": 0.05}
    train = {each.index for each in ordered_documents(CorpusConfig(**corpus))}
    held_out = {each.index for each in ordered_documents(CorpusConfig(split="held_out", seed=5, **corpus))}
    assert train.isdisjoint(held_out)
    assert train | held_out == set(range(10_033))
    assert 400 < len(held_out) < 600


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
