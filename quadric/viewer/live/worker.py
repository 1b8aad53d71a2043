"""One thread for the language model: requests wait in a bounded queue, report progress and can be cancelled.

A forward pass cannot be interrupted from outside. `stop_when_cancelled` puts a check before every layer, so that a
cancelled request ends within one layer instead of one answer.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from torch import nn

MOST_WAITING = 128
"""Requests in the queue; each is bounded by the size of a body."""


class BusyError(RuntimeError):
    """The queue is full."""


class CancelledError(Exception):
    """The request is no longer wanted."""


class Job:
    """One request: a function of the job, which reports progress through it."""

    def __init__(self, work: Callable[["Job"], Any]) -> None:
        self.work = work
        self.result: Future[Any] = Future()
        self.started = False
        self.done, self.total = 0, 0
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Ask for the end of the work; it ends at the next check."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raise if the request was cancelled."""
        if self.is_cancelled:
            raise CancelledError

    def report(self, done: int, total: int) -> None:
        """Say how much of the work is done, and stop here if nobody wants the rest."""
        self.done, self.total = done, total
        self.check()


class Worker:
    """Runs jobs one after the other, in the order in which they were given."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self.most_waiting = most_waiting
        self.n_taken = 0
        """Jobs that were taken from the queue."""
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._waiting: list[Job] = []
        self._lock = threading.Lock()
        self.current: Job | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="quadric-model")
        self._thread.start()

    def submit(self, work: Callable[[Job], Any]) -> Job:
        """Add a job to the queue; BusyError if it is full."""
        job = Job(work)
        with self._lock:
            if self._closed:
                raise BusyError("the server is stopping")
            self._waiting = [each for each in self._waiting if not each.is_cancelled]
            if len(self._waiting) >= self.most_waiting:
                raise BusyError(f"{len(self._waiting)} requests are waiting for the language model; try again soon")
            self._waiting.append(job)
            self._queue.put(job)
        return job

    def ahead_of(self, job: Job) -> int:
        """Requests that come before a waiting one."""
        with self._lock:
            before = [each for each in self._waiting if not each.is_cancelled]
            place = before.index(job) if job in before else 0
        return place + (self.current is not None)

    def close(self) -> None:
        """Cancel everything and end the thread."""
        with self._lock:
            self._closed = True
            for job in [*self._waiting, *([self.current] if self.current else [])]:
                job.cancel()
            with suppress(queue.Empty):
                while (dropped := self._queue.get_nowait()) is not None:
                    dropped.result.set_exception(CancelledError())
        self._queue.put(None)
        self._thread.join(timeout=0.5)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._lock:
                if job in self._waiting:
                    self._waiting.remove(job)
                self.current = job
                self.n_taken += 1
            self._finish(job)
            self.current = None

    def _finish(self, job: Job) -> None:
        try:
            job.check()
            job.started = True
            job.result.set_result(job.work(job))
        except BaseException as problem:
            job.result.set_exception(problem)


@contextmanager
def stop_when_cancelled(layers: nn.ModuleList, worker: Worker) -> Iterator[None]:
    """Check before every layer whether the running job is still wanted."""

    def check(module: nn.Module, arguments: Any) -> None:
        if worker.current is not None and threading.current_thread().name == "quadric-model":
            worker.current.check()

    hooks = [layer.register_forward_pre_hook(check) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
