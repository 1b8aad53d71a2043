"""The seed determines the order; the text alone determines whether a document is held out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric.data.corpus import CorpusConfig, Document, ordered_documents
from quadric.data.corpus.order import is_held_out, shuffled

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
