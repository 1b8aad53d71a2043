"""Prefetching yields the same items, raises errors in the right place, and ends its thread with the consumer."""

import threading
from collections.abc import Iterator

import pytest

from quadric.data.batches import prefetched


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("quadric-prefetch")]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_items_are_the_same(depth: int) -> None:
    assert list(prefetched(range(50), depth)) == list(range(50))
    assert threads() == []


def test_the_producer_runs_ahead_of_the_consumer() -> None:
    second_made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second_made.set()
        yield 2

    stream = prefetched(items(), 1)
    assert next(stream) == 1
    assert second_made.wait(timeout=30)  # before the consumer requests it
    assert list(stream) == [2]


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    stream = prefetched(items(), 4)
    assert next(stream) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
    assert threads() == []


def test_leaving_early_ends_the_thread() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 0

    for _ in prefetched(endless(), 2):
        break
    assert threads() == []
