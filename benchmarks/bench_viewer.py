"""The viewer: in a browser, and with the language model behind it.

Claims: 10,000 points rotate at 30 frames per second or more; a latent's page is usable 100 ms after its data; a text is
explained within 15 s from a cold start, and a live page answers a second text within 3 s. Also: 100 parallel requests
are each answered as the lone one, closing a connection stops the work, and Ctrl-C ends the server within a second.

    python benchmarks/bench_viewer.py [--run runs/demo] [--only browser|text]
"""

import argparse
import gzip
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from measure import write_table

sys.path.insert(0, str(Path(__file__).parents[1]))
from playwright.sync_api import Page, sync_playwright

from quadric.viewer.writer import STATIC, write_site
from tests.viewer.browser import launch, served
from tests.viewer.synthetic import synthetic_dictionary, synthetic_text

SIZE = {"width": 1360, "height": 900}
SECONDS = 5
PAGES = 12

ROTATE = """async (seconds) => {
    const canvas = document.querySelector(".scene-points");
    const gl = canvas.getContext("webgl2");
    const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    const frame = () => new Promise(requestAnimationFrame);
    for (let i = 0; i < 10; i++) { press(); await frame(); }
    const start = performance.now();
    let frames = 0;
    while (performance.now() - start < 1000 * seconds) { press(); await frame(); frames++; }
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); // wait for queued draw calls
    return (1000 * frames) / (performance.now() - start);
}"""

TURN_TO = """(latent) => new Promise((done) => {
    performance.clearResourceTimings();
    const seen = new MutationObserver(() => {
        if (!document.querySelector(".crumb")?.textContent.includes(`latent ${latent} `)) return;
        seen.disconnect();
        requestAnimationFrame(() => setTimeout(() => {
            const file = performance.getEntriesByType("resource").find(({ name }) => name.includes(`/latents/`));
            done(performance.now() - file.responseEnd);
        }));
    });
    seen.observe(document, { subtree: true, childList: true, characterData: true });
    location.hash = `#/composite/latent/${latent}`;
})"""
QUESTION = "Paris is the capital of France"
STORY = (
    "the old harbour of a small town where ships from many countries once brought coffee sugar cotton and news of wars "
    "that had already ended before anyone on the quay could read about them in the paper of the previous week"
)
COLD_RUNS = 3
TEXTS = 10
PARALLEL = 100


def write(folder: Path, n_latents: int, n_points: int) -> None:
    """A synthetic site of the given size."""
    text = synthetic_text()
    dictionary = synthetic_dictionary(text, n_latents=n_latents, n_points=n_points)
    write_site(folder, title="benchmark", texts=[text], dictionaries=[dictionary])


def frames_per_second(page: Page, address: str, query: str) -> float:
    """Frames per second while an arrow key rotates the picture at every frame."""
    page.goto("about:blank")
    page.goto(f"{address}#/composite/latent/2{query}")
    page.wait_for_selector(".scene-points")
    return float(page.evaluate(ROTATE, SECONDS))


def milliseconds_to_page(page: Page, address: str) -> list[float]:
    """Times from the last byte of a latent's file to the drawn page.

    Visits every second latent, because the viewer prefetches the next one.
    """
    page.goto("about:blank")
    page.goto(f"{address}#/composite/latent/0")
    page.wait_for_selector(".latent-page")
    page.wait_for_timeout(500)
    times = []
    for latent in range(2, 2 + 2 * PAGES, 2):
        times.append(float(page.evaluate(TURN_TO, latent)))
        page.wait_for_timeout(300)
    return times


def packed(*names: str) -> int:
    """Size of built assets in bytes, each gzipped separately as a web host would do."""
    return sum(len(gzip.compress((STATIC / "assets" / name).read_bytes())) for name in names)


def browser_table() -> None:
    """Synthetic sites in a browser."""
    rows = []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_context(viewport=SIZE).new_page()
        for n_points in (2_000, 10_000):
            folder = Path(place) / str(n_points)
            write(folder, 3, n_points)
            with served(folder) as address:
                for name, query in (("points and axes", ""), ("and surface", "?surface=0.3")):
                    rate = frames_per_second(page, address, query)
                    rows.append([f"rotation, {n_points:,} points, {name}", f"{rate:.0f} frames/s"])
        write(Path(place) / "pages", 2 * PAGES + 2, 2_000)
        with served(Path(place) / "pages") as address:
            times = milliseconds_to_page(page, address)
        spread = f"{statistics.median(times):.0f} ms ({min(times):.0f}–{max(times):.0f})"
        rows.append([f"data to drawn page, 2,000 points, {len(times)} latents", spread])
        version = browser.version
        browser.close()
    rows.append(["application (script and styles), gzipped", f"{packed('app.js', 'app.css') / 1000:.1f} kB"])
    fonts = packed("inter-latin.woff2", "inter-greek.woff2", "inter-latin-ext.woff2")
    rows.append(["fonts, each loaded on demand", f"{fonts / 1000:.0f} kB"])
    notes = (
        f"`python benchmarks/bench_viewer.py`: headless Chromium {version} with software GL, "
        f"{SIZE['width']}×{SIZE['height']}, {SECONDS} s of rotation at every frame."
    )
    write_table("viewer", "The viewer in a browser", ["quantity", "measured"], rows, notes)


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


def text_table(run: str) -> None:
    """Texts read and continued by the live viewer of a run."""
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
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_viewer.py --only text`"
    )
    write_table("live_viewer", "Explaining and steering text", ["quantity", "measured"], rows, about)


def between(seconds: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="runs/demo", help="a run of quadric demo, for the table of texts")
    parser.add_argument("--only", choices=["browser", "text"], help="one table")
    options = parser.parse_args()
    if options.only in (None, "browser"):
        browser_table()
    if options.only in (None, "text"):
        text_table(options.run)


if __name__ == "__main__":
    main()
