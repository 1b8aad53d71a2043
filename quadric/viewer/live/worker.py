"""One thread for the language model: requests wait in a bounded queue, report progress and can be cancelled.

A forward pass cannot be interrupted from outside. `stop_when_cancelled` puts a check before every layer, so that a
cancelled request ends within one layer instead of one answer.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
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
        self.current: Job | None = None
        self._waiting: list[Job] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="quadric-model")
        self._thread.start()

    def submit(self, work: Callable[[Job], Any]) -> Job:
        """Add a job to the queue; BusyError if it is full."""
        job = Job(work)
        with self._changed:
            if self._is_closed:
                raise BusyError("the server is stopping")
            if len(self._wanted()) >= self.most_waiting:
                raise BusyError(f"{self.most_waiting} requests are waiting for the language model; try again soon")
            self._waiting.append(job)
            self._changed.notify()
        return job

    def ahead_of(self, job: Job) -> int:
        """Requests that come before a waiting one."""
        with self._changed:
            wanted = self._wanted()
            return (wanted.index(job) if job in wanted else 0) + (self.current is not None)

    def close(self) -> None:
        """Cancel everything and end the thread."""
        with self._changed:
            self._is_closed = True
            for job in self._waiting:
                job.cancel()
            if self.current is not None:
                self.current.cancel()
            self._changed.notify()
        self._thread.join(timeout=0.5)

    def _wanted(self) -> list[Job]:
        return [job for job in self._waiting if not job.is_cancelled]

    def _next(self) -> Job | None:
        """Wait for a job; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self.current = self._waiting.pop(0) if self._waiting else None
            return self.current

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.check()
                job.started = True
                job.result.set_result(job.work(job))
            except BaseException as problem:
                job.result.set_exception(problem)
            self.current = None


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
