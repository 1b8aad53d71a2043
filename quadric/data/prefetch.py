"""Produce items in a background thread while the consumer works."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

Item = TypeVar("Item")
_END = object()


def prefetched(items: Iterable[Item], depth: int) -> Iterator[Item]:
    """The same items, produced by a thread up to `depth` items ahead; with depth 0, produced on demand.

    An exception in the producer is raised in the consumer, after the items before it. Leaving the loop ends the thread.
    """
    if depth == 0:
        yield from items
        return
    ready: queue.Queue[object] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    # A new thread begins with the first GPU as its current one, whichever is that of the process.
    gpu = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    thread = threading.Thread(target=_produce, args=(items, ready, stop, gpu), name="quadric-prefetch", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _produce(items: Iterable[Item], ready: "queue.Queue[object]", stop: threading.Event, gpu: int | None) -> None:
    try:
        if gpu is not None:
            torch.cuda.set_device(gpu)
        for item in items:
            if not _put(ready, item, stop):
                return
        _put(ready, _END, stop)
    except BaseException as error:
        _put(ready, _Failure(error), stop)


def _put(ready: "queue.Queue[object]", item: object, stop: threading.Event) -> bool:
    """Wait for room in the queue; give up if the consumer has stopped."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
