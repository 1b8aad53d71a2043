"""Splitting documents into blocks loses, duplicates and reorders no token."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric.data.corpus import Block, CorpusConfig, CorpusError, Document, TokenBlocks
from quadric.data.corpus import blocks as blocks_module


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
