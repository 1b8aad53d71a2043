"""The model's thread: in order, bounded, cancellable between layers."""

import threading
import time

import pytest

from quadric.viewer.live.worker import BusyError, CancelledError, Job, Worker, stop_when_cancelled
from tests.data.tiny import random_tokens, tiny_model


@pytest.fixture
def worker():
    running = Worker(most_waiting=2)
    yield running
    running.close()


def test_jobs_run_in_order_and_give_results_and_errors(worker: Worker) -> None:
    seen: list[int] = []
    first, second = (worker.submit(lambda job, number=number: seen.append(number) or number) for number in (1, 2))
    assert (first.result.result(5), second.result.result(5), seen) == (1, 2, [1, 2])

    def fails(job: Job) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        worker.submit(fails).result.result(5)


def test_a_full_queue_is_busy_and_cancelled_jobs_leave_it(worker: Worker) -> None:
    go = threading.Event()
    running = worker.submit(lambda job: go.wait(10))
    while worker.current is None:
        time.sleep(0.001)
    waiting = [worker.submit(lambda job: 1) for _ in range(2)]
    assert [worker.ahead_of(job) for job in waiting] == [1, 2]
    with pytest.raises(BusyError, match="2 requests are waiting"):
        worker.submit(lambda job: 1)
    waiting[0].cancel()
    assert worker.ahead_of(waiting[1]) == 1
    third = worker.submit(lambda job: 3)
    go.set()
    assert running.result.result(5) is True
    with pytest.raises(CancelledError):
        waiting[0].result.result(5)
    assert third.result.result(5) == 3


def test_a_cancelled_forward_pass_stops_at_the_next_layer(worker: Worker) -> None:
    model = tiny_model()
    reached: list[int] = []
    go, entered = threading.Event(), threading.Event()

    def wait_in_the_second(module: object, arguments: object) -> None:
        reached.append(1)
        entered.set()
        go.wait(10)

    model.layers[1].register_forward_pre_hook(wait_in_the_second)
    model.layers[3].register_forward_pre_hook(lambda module, arguments: reached.append(3))
    with stop_when_cancelled(model.layers, worker):
        job = worker.submit(lambda job: model.causal(random_tokens(1, 5)))
        assert entered.wait(5)
        job.cancel()
        go.set()
        with pytest.raises(CancelledError):
            job.result.result(5)
        assert reached == [1]
        model.causal(random_tokens(1, 5))  # another thread's pass is left alone
    assert reached == [1, 1, 3]


def test_closing_ends_the_thread_and_everything_that_waits() -> None:
    worker = Worker()
    running = worker.submit(lambda job: [time.sleep(0.01) or job.check() for _ in range(1000)])
    waiting = worker.submit(lambda job: 1)
    start = time.monotonic()
    worker.close()
    assert time.monotonic() - start < 1
    for job in (running, waiting):
        with pytest.raises(CancelledError):
            job.result.result(1)
    with pytest.raises(BusyError, match="stopping"):
        worker.submit(lambda job: 1)
