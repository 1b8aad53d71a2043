"""Claims: a text is explained within 15 s from a cold start, and a live page answers a second text within 3 s.

    python benchmarks/bench_live.py runs/demo

Also: 100 parallel requests are each answered as the lone one, closing a connection stops the work, and Ctrl-C ends the
server within a second.
"""

import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from measure import write_table

QUESTION = "Paris is the capital of France"
STORY = (
    "the old harbour of a small town where ships from many countries once brought coffee sugar cotton and news of wars "
    "that had already ended before anyone on the quay could read about them in the paper of the previous week"
)
COLD_RUNS = 3
TEXTS = 10
PARALLEL = 100


class Live(NamedTuple):
    """A running `quadric view --live`."""

    process: subprocess.Popen[str]
    port: int
    dictionary: str
    seconds_to_start: float

    def ask(self, method: str, **question: Any) -> dict[str, Any]:
        """The answer to a question, which must be answered."""
        connection = self.send(method, **question)
        lines = connection.getresponse().read().splitlines()
        connection.close()
        last = json.loads(lines[-1])
        assert last["state"] == "done", last
        answer: dict[str, Any] = last["answer"]
        return answer

    def send(self, method: str, **question: Any) -> http.client.HTTPConnection:
        """A connection on which a question was sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        body = json.dumps({"dictionary": self.dictionary, **question})
        connection.request("POST", f"/api/{method}", body, {"Content-Type": "application/json"})
        return connection

    def memory(self) -> int:
        """Peak memory of the server so far, in bytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


def timed(work: Any) -> tuple[float, Any]:
    """Wall time of a call, and what it returned."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def cold_start(run: str) -> float:
    """Wall time of the whole command in a fresh process."""
    command = [sys.executable, "-m", "quadric", "explain", run, QUESTION]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))[0]


def start(run: str) -> Live:
    """Start the server and wait until it says where it is."""
    command = [sys.executable, "-m", "quadric", "view", run, "--live", "--no-open", "--port", "0"]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
    seconds = time.perf_counter() - begin
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/status")
    status = json.loads(connection.getresponse().read())
    connection.close()
    return Live(process, port, status["dictionaries"][0], seconds)


def text_of(number: int, n_words: int = 30) -> str:
    """Different words for every number; nearly every one is a single token."""
    words = STORY.split()
    return " ".join(words[(number + place) % len(words)] for place in range(n_words))


def in_parallel(live: Live) -> tuple[float, int, int]:
    """Seconds for all answers, how many equal the lone ones, and the growth of the server's peak memory."""
    texts = [f"{number} {text_of(number, 3 + number % 9)}" for number in range(PARALLEL)]
    before = live.memory()
    with ThreadPoolExecutor(PARALLEL) as clients:
        seconds, together = timed(lambda: list(clients.map(lambda text: live.ask("explain", text=text), texts)))
    grown = live.memory() - before
    # "top" is given, so that the question is another one and no answer comes from memory.
    alone = [live.ask("explain", text=text, top=8) for text in texts]
    return seconds, sum(map(dict.__eq__, together, alone)), grown


def after_hanging_up(live: Live) -> float:
    """Seconds until a short question is answered, asked right after a long one was hung up on."""
    connection = live.send("steer", text=text_of(7), latent=1, kind="ablate", tokens=40)
    time.sleep(0.5)
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    return timed(lambda: live.ask("explain", text="a short question"))[0]


def interrupted(live: Live) -> tuple[float, float]:
    """Seconds from Ctrl-C to a closed port and to the end of the process, while it is generating."""
    live.send("steer", text=text_of(9), latent=2, kind="ablate", tokens=40)
    time.sleep(0.5)
    begin = time.perf_counter()
    live.process.send_signal(signal.SIGINT)
    while listens(live.port):
        time.sleep(0.005)
    closed = time.perf_counter() - begin
    assert live.process.wait() == 0
    return closed, time.perf_counter() - begin


def listens(port: int) -> bool:
    """Whether the port takes connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def main(run: str) -> None:
    load = os.getloadavg()[0]
    cold = [cold_start(run) for _ in range(COLD_RUNS)]
    live = start(run)
    first, found = timed(lambda: live.ask("explain", text=text_of(0)))
    later = [timed(lambda number=number: live.ask("explain", text=text_of(number)))[0] for number in range(1, TEXTS)]
    stars = timed(lambda: live.ask("stars", text=text_of(1), latent=3))[0]
    prompt = {"text": QUESTION, "latent": 3, "kind": "project"}
    steer_first, steer_next = (timed(lambda z=z: live.ask("steer", amount=z, **prompt))[0] for z in (0.1, 0.2))
    seconds, equal, grown = in_parallel(live)
    hung_up = after_hanging_up(live)
    closed, ended = interrupted(live)
    rows = [
        [f'`quadric explain RUN "{QUESTION}"`, fresh process', between(cold)],
        ["start of `quadric view RUN --live`", f"{live.seconds_to_start:.1f} s"],
        [f"first text of {len(found['tokens'])} tokens", f"{first:.2f} s"],
        [f"each of {len(later)} further texts of that length", between(later)],
        ["stars of a text that was read before, on one latent", f"{stars:.2f} s"],
        ["20 tokens with and without a latent moved", f"{steer_first:.1f} s"],
        ["the same after the slider moved", f"{steer_next:.1f} s"],
        [f"{PARALLEL} parallel texts, all answers", f"{seconds:.1f} s"],
        ["of these, equal to the lone answer", f"{equal} of {PARALLEL}"],
        ["growth of the server's peak memory meanwhile", f"{grown / 1e6:.0f} MB"],
        ["short question right after hanging up on a long one", f"{hung_up:.2f} s"],
        ["Ctrl-C while generating: port closed", f"{closed:.2f} s"],
        ["Ctrl-C while generating: process ended", f"{ended:.2f} s"],
    ]
    about = (
        "The demo's run (smollm2, layer 15, 512 latents) on the CPU; files are in the page cache. "
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_live.py runs/demo`"
    )
    write_table("live_viewer", "Explaining and steering text", ["quantity", "measured"], rows, about)


def between(seconds: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
