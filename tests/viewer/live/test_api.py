"""The live API: right answers, also in parallel, and nothing for strangers."""

import http.client
import json
import logging
import resource
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
import pytest

from quadric.explanations import Explainer
from quadric.viewer.live.api import LARGEST_BODY
from quadric.viewer.live.session import LONGEST_TEXT
from quadric.viewer.serve import LIVE_MARK, SiteServer
from tests.explanations.small_run import NAME
from tests.viewer.live.client import answer_of, ask

TEXT = "Document 3: word 3 and more."
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\u202e\x00\x1b[31m",
    "<|endoftext|><bos>",
    "🙂" * 50,
    "a\u0301" * 40,
    '"}\n{"',
]


def get(
    live: SiteServer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, bytes, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}


def test_an_answer_is_what_python_gives(live: SiteServer, live_explainer: Explainer) -> None:
    (found,) = live_explainer.explain([TEXT], 8)
    assert answer_of(live.port, "explain", {"dictionary": NAME, "text": TEXT}) == json.loads(json.dumps(asdict(found)))


def test_stars_lie_where_the_site_has_its_points(live: SiteServer, live_explainer: Explainer) -> None:
    found = answer_of(live.port, "stars", {"dictionary": NAME, "text": TEXT, "latent": 5, "axes": 6})
    (reading,) = live_explainer.reader.read([TEXT])
    assert "".join(found["words"]) == TEXT
    assert found["tokens"] == reading.kept
    assert found["values"] == pytest.approx(live_explainer.values(reading.vectors)[:, 5].tolist())
    own = live_explainer.coordinates(reading, 5, 6)
    np.testing.assert_allclose(np.array(found["coordinates"]).T, own.axes)
    np.testing.assert_allclose(np.array(found["control"]).T, own.control)
    np.testing.assert_allclose(found["linear"], own.linear)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_answered_like_any_other(live: SiteServer, text: str) -> None:
    found = answer_of(live.port, "explain", {"dictionary": NAME, "text": text})
    assert found["text"] == text
    assert "".join(token["text"] for token in found["tokens"]) == text


@pytest.mark.slow
def test_a_hundred_parallel_requests_are_each_answered_as_if_alone(live: SiteServer) -> None:
    """Memory stays bounded: the peak grows by less than 100 MB over answers of a few kB each."""
    questions = [{"dictionary": NAME, "text": f"parallel {number} " + "word " * (number % 7)} for number in range(100)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ThreadPoolExecutor(100) as clients:
        together = list(clients.map(lambda asked: answer_of(live.port, "explain", asked), questions))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    for asked, found in list(zip(questions, together, strict=True)):
        alone = answer_of(live.port, "explain", {**asked, "top": 8})
        assert found == alone


def test_a_client_that_hangs_up_stops_the_work(live: SiteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    started, stopped = threading.Event(), threading.Event()

    def slow(request: object, job: object) -> dict:
        started.set()
        try:
            while True:
                time.sleep(0.01)
                job.check()  # type: ignore[attr-defined]
        finally:
            stopped.set()

    monkeypatch.setitem(_methods(live), "explain", slow)
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=10)
    body = json.dumps({"dictionary": NAME, "text": "never answered"})
    connection.request("POST", "/api/explain", body, {"Content-Type": "application/json"})
    assert started.wait(5)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    assert stopped.wait(2)
    monkeypatch.undo()
    assert answer_of(live.port, "explain", {"dictionary": NAME, "text": "answered"})["text"] == "answered"


@pytest.mark.parametrize("method", ["explain", "steer"])
@pytest.mark.parametrize("when", ["in the head", "in the body", "at once", "later"])
def test_a_client_that_hangs_up_leaves_no_trace(
    live: SiteServer, method: str, when: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = {"dictionary": NAME, "text": TEXT, "latent": 0, "kind": "project", "amount": 0.5, "tokens": 20}
    body = json.dumps(asked).encode()
    head = f"POST /api/{method} HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    length = {"in the head": 40, "in the body": len(request) - 9}.get(when, len(request))
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                connection.sendall(request[:length])
                if when == "later":
                    assert connection.recv(20).startswith(b"HTTP/1.1 200")
        assert answer_of(live.port, "explain", {"dictionary": NAME, "text": TEXT})["text"] == TEXT
    assert caplog.records == []
    assert capfd.readouterr().err == ""


def _methods(live: SiteServer) -> dict:
    return live.api.session.methods


def test_waiting_and_progress_are_said(live: SiteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def slow(request: object, job: object) -> dict:
        job.report(3, 7)  # type: ignore[attr-defined]
        assert go.wait(10)
        return {"fine": True}

    monkeypatch.setitem(_methods(live), "explain", slow)
    with ThreadPoolExecutor(2) as clients:
        first = clients.submit(ask, live.port, "explain", {"n": 1})
        time.sleep(0.3)
        second = clients.submit(ask, live.port, "explain", {"n": 2})
        time.sleep(0.5)
        go.set()
        assert {"state": "running", "done": 3, "total": 7} in first.result()[1]
        assert {"state": "waiting", "ahead": 1} in second.result()[1]
        assert second.result()[1][-1] == {"state": "done", "answer": {"fine": True}}


def test_a_full_queue_is_a_clear_message(live: SiteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setitem(_methods(live), "explain", lambda request, job: {"went": go.wait(10)})
    monkeypatch.setattr(live.api.worker, "most_waiting", 2)
    with ThreadPoolExecutor(3) as clients:
        taken = [clients.submit(ask, live.port, "explain", {"full": number}) for number in range(3)]
        time.sleep(0.5)
        status, lines, headers = ask(live.port, "explain", {"full": "too many"})
        go.set()
        assert [each.result()[0] for each in taken] == [200] * 3
    assert status == 503
    assert "2 requests are waiting for the language model; try again soon" in lines[0]["message"]
    assert headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"dictionary": "other", "text": "a"}, "there is no live dictionary 'other'"),
        ({"dictionary": NAME}, "there is no text"),
        ({"dictionary": NAME, "text": " "}, "there is no text"),
        ({"dictionary": NAME, "text": 7}, "there is no text"),
        ({"dictionary": NAME, "text": "a", "top": 0}, "top=0 is not a whole number from 1 to 50"),
        ({"dictionary": NAME, "text": "a", "top": True}, "top=True is not a whole number"),
        ({"dictionary": NAME, "text": "\ud800"}, "not valid Unicode"),
        ({"dictionary": NAME, "text": "x" * (LONGEST_TEXT + 1)}, "the page reads up to 1,024"),
    ],
)
def test_wrong_questions_are_answered_with_the_reason(live: SiteServer, asked: dict, message: str) -> None:
    status, lines, _ = ask(live.port, "explain", asked)
    assert (status, lines[-1]["state"]) == (200, "failed")
    assert message in lines[-1]["message"]


def test_an_error_of_ours_gives_nothing_away(live: SiteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: object, job: object) -> dict:
        raise RuntimeError("/home/someone/secret")

    monkeypatch.setitem(_methods(live), "explain", broken)
    _, lines, _ = ask(live.port, "explain", {"broken": 1})
    assert lines[-1] == {"state": "failed", "message": "something went wrong in the server (RuntimeError)"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"[]", {}, 400),
        (b"no", {}, 400),
        (b"[" * 30_000, {}, 400),
        (b'{"text": "' + b"x" * LARGEST_BODY + b'"}', {}, 413),
        (b"{}", {"Origin": "http://evil.example"}, 403),
        (b"{}", {"Origin": "null"}, 403),
        (b"{}", {"Sec-Fetch-Site": "cross-site"}, 403),
        (b"{}", {"Sec-Fetch-Site": "same-site"}, 403),
        (b"{}", {"Host": "evil.example"}, 421),
    ],
)
def test_strangers_and_oversized_bodies_are_refused(
    live: SiteServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert ask(live.port, "explain", body, headers=headers)[0] == status


def test_own_pages_are_answered(live: SiteServer) -> None:
    own = {"Origin": f"http://127.0.0.1:{live.port}", "Sec-Fetch-Site": "same-origin"}
    assert ask(live.port, "explain", {"dictionary": NAME, "text": "a"}, headers=own)[0] == 200
    assert (
        ask(live.port, "explain", {"dictionary": NAME, "text": "a"}, headers={"Origin": "http://localhost:1"})[0] == 403
    )
    status, content, _ = get(live, "/api/status")
    assert (status, json.loads(content)["dictionaries"]) == (200, [NAME])
    assert get(live, "/api/status", {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert get(live, "/api/explain")[0] in (404, 405)


def test_the_page_says_that_it_is_live_under_the_same_policy(live: SiteServer) -> None:
    status, content, headers = get(live, "/")
    assert status == 200
    assert LIVE_MARK in content
    assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
