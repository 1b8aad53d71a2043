"""Labels by a model: requested once, stored at once, marked unevaluated; the key is sent to the endpoint only."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from quadric._io.locks import BusyError, only_writer
from quadric.evidence import Evidence, endpoints
from quadric.evidence.endpoints import ATTEMPTS, AnswerError, Endpoint, EndpointError
from quadric.evidence.labelling import ANSWERS, label_in, label_latents, prompt_for
from tests.evidence.fake_endpoint import Reply, Request, anthropic_reply, openai_reply, serving
from tests.evidence.test_collector import collected, finished

EVIDENCE = finished(collected())
KEY = "sk-secret-0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    EVIDENCE.save(tmp_path)
    return tmp_path


def label_of(number: int, request: Request) -> Reply:
    return openai_reply(f'Sure: {{"label": "label {number}"}}')


def test_labels_are_stored_as_unevaluated_and_asked_only_once(folder: Path) -> None:
    with serving(label_of) as server:
        endpoint = Endpoint(url=server.url, model="m", key=KEY)
        report = label_latents(folder, [0, 1, 2], endpoint)
        assert len(report.labelled) == 3
        again = label_latents(folder, [0, 1, 2, 3], endpoint)
        assert len(server.requests) == 4
        assert again.from_before == 3
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert written.texts == again.labelled
    assert written.status == "unevaluated"
    assert Evidence.load(folder).labels.texts == EVIDENCE.labels.texts
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].body["model"] == "m"
    assert "⟦" in server.requests[0].body["messages"][0]["content"]


def test_the_key_is_in_no_file_and_no_message(folder: Path) -> None:
    def refuse(number: int, request: Request) -> Reply:
        return label_of(number, request) if number == 0 else Reply(401, f"no such key {KEY}".encode())

    with serving(refuse) as server, pytest.raises(EndpointError, match="check the key") as caught:
        label_latents(folder, [0, 1], Endpoint(url=server.url, model="m", key=KEY), concurrency=1)
    assert KEY not in str(caught.value)
    assert KEY not in repr(Endpoint(url=server.url, model="m", key=KEY))
    for file in folder.iterdir():
        assert KEY.encode() not in file.read_bytes()
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert list(written.texts) == [0]  # what came before the refusal is kept


def test_anthropic_is_spoken_too(folder: Path) -> None:
    with serving(lambda *_: anthropic_reply('{"label": "ends of words"}')) as server:
        report = label_latents(folder, [4], Endpoint(url=server.url, model="m", api="anthropic", key=KEY))
    assert report.labelled == {4: "ends of words"}
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, none of which is made."""
    asked: list[float] = []
    monkeypatch.setattr(endpoints, "pause", lambda stop, seconds: asked.append(seconds))
    return asked


def test_a_busy_server_is_asked_again_when_it_says(folder: Path, waits: list[float]) -> None:
    def busy_at_first(number: int, request: Request) -> Reply:
        replies = [Reply(429, b"", {"retry-after": "7"}), Reply(503, b""), Reply(200, b"<html>")]
        return replies[number] if number < len(replies) else label_of(number, request)

    with serving(busy_at_first) as server:
        report = label_latents(folder, [0], Endpoint(url=server.url, model="m"))
    assert len(report.labelled) == 1
    assert waits == [7, 2, 4]


def test_a_wait_that_is_no_number_is_left_out_and_a_long_one_cut(folder: Path, waits: list[float]) -> None:
    def busy(number: int, request: Request) -> Reply:
        values = ["-3", "9000", "Wed, 21 Oct 2099 07:28:00 GMT"]
        return Reply(429, b"", {"retry-after": values[number]}) if number < 3 else label_of(number, request)

    with serving(busy) as server:
        label_latents(folder, [0], Endpoint(url=server.url, model="m"))
    assert waits == [0, 60, 4]


@pytest.mark.usefixtures("waits")
def test_a_server_that_stays_busy_ends_it(folder: Path) -> None:
    with serving(lambda *_: Reply(500, b"")) as server:
        endpoint = Endpoint(url=server.url, model="m")
        with pytest.raises(EndpointError, match=f"did not answer in {ATTEMPTS} attempts"):
            label_latents(folder, [0], endpoint)
    with pytest.raises(EndpointError, match="no connection"):  # the server is closed
        label_latents(folder, [0], endpoint)


def test_an_odd_answer_is_asked_for_twice_and_then_reported(folder: Path) -> None:
    def odd_for_the_first(number: int, request: Request) -> Reply:
        first = prompt_for(EVIDENCE, 0) == request.body["messages"][0]["content"]
        return openai_reply("I cannot say.") if first else label_of(number, request)

    with serving(odd_for_the_first) as server:
        report = label_latents(folder, [0, 1], Endpoint(url=server.url, model="m"))
        assert len(server.requests) == 3
    assert list(report.labelled) == [1]
    assert "I cannot say" in report.failures[0]


def test_a_redirect_is_not_followed(folder: Path) -> None:
    with serving(label_of) as other:
        moved = Reply(302, b"", {"location": f"{other.url}/chat/completions"})
        with serving(lambda *_: moved) as server, pytest.raises(EndpointError, match="status 302"):
            label_latents(folder, [0], Endpoint(url=server.url, model="m", key=KEY))
        assert other.requests == []


def test_requests_run_at_the_same_time_up_to_the_limit(folder: Path) -> None:
    together = threading.Barrier(3, timeout=20)

    def wait_for_others(number: int, request: Request) -> Reply:
        together.wait()
        return label_of(number, request)

    with serving(wait_for_others) as server:
        label_latents(folder, range(6), Endpoint(url=server.url, model="m"), concurrency=3)
    assert server.most_at_once == 3


def test_a_line_that_was_cut_off_is_asked_again(folder: Path) -> None:
    with serving(label_of) as server:
        endpoint = Endpoint(url=server.url, model="m")
        label_latents(folder, [0, 1], endpoint, concurrency=1)
        lines = (folder / ANSWERS).read_bytes()
        (folder / ANSWERS).write_bytes(lines[:-9])
        report = label_latents(folder, [0, 1], endpoint, concurrency=1)
        assert (report.from_before, len(report.labelled)) == (1, 2)
        assert label_latents(folder, [0, 1], endpoint).from_before == 2


def test_labels_of_another_model_replace_the_earlier_ones(folder: Path) -> None:
    with serving(label_of) as server:
        label_latents(folder, [0, 1], Endpoint(url=server.url, model="m"))
        label_latents(folder, [2], Endpoint(url=server.url, model="other"))
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert (written.model, list(written.texts)) == ("other", [2])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"url": "localhost:8000"}, "is not an address"),
        ({"url": "https://me:pw@host/v1"}, "keep keys in the environment"),
        ({"url": "https://host/v1?key=1"}, "keep keys in the environment"),
        ({"url": "http://host/v1", "key": KEY}, "unencrypted"),
    ],
)
def test_addresses_that_would_leak_a_key_are_refused(arguments: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Endpoint(model="m", **arguments)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "answer", ["", "no", '{"label": 3}', '{"label": "  "}', '["label"]', json.dumps({"label": "x" * 61})]
)
def test_answers_without_a_label_are_refused(answer: str) -> None:
    with pytest.raises(AnswerError):
        label_in(answer)


def test_a_label_is_one_plain_line() -> None:
    assert label_in('```json\n{"label": "a\\n b\\u202e  c"}\n```') == "a b c"


def test_a_latent_that_is_not_there_and_no_concurrency_are_refused(folder: Path) -> None:
    endpoint = Endpoint(url="http://localhost:1/v1", model="m")
    with pytest.raises(ValueError, match="latent 6 is outside"):
        label_latents(folder, [6], endpoint)
    with pytest.raises(ValueError, match="concurrency=0"):
        label_latents(folder, [0], endpoint, concurrency=0)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback that handles one connection after another with `answer`; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)  # ends accept
    thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_proxy_never_sees_a_request_to_this_machine(folder: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    seen: list[bytes] = []

    def proxy(connection: socket.socket) -> None:
        seen.append(connection.recv(4096))

    with serving(label_of) as server, listening(proxy) as port:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        url = server.url.replace("127.0.0.1", host)
        report = label_latents(folder, [0], Endpoint(url=url, model="m", key=KEY))
    assert len(report.labelled) == 1
    assert seen == []


def test_an_endpoint_that_drips_bytes_meets_a_deadline(folder: Path) -> None:
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not ended.wait(0.01):
                connection.sendall(b"x")

    with listening(drip) as port:
        endpoint = Endpoint(url=f"http://127.0.0.1:{port}/v1", model="m", deadline=0.3)
        try:
            with pytest.raises(EndpointError, match=r"did not finish an answer in 0.3 s; try later"):
                label_latents(folder, [0, 1], endpoint, concurrency=1)
        finally:
            ended.set()


def test_an_interrupt_waits_for_no_open_request(folder: Path) -> None:
    interrupted = threading.Event()
    outcomes: list[bool] = []

    def slow_after_the_first(number: int, request: Request) -> Reply:
        if number:
            outcomes.append(interrupted.wait(60))  # True if the call below ended while this request was open
        return label_of(number, request)

    def stop(what: str, done: int, total: int, words: str) -> None:
        if done:
            raise KeyboardInterrupt

    with serving(slow_after_the_first) as server:
        with pytest.raises(KeyboardInterrupt):
            label_latents(folder, range(4), Endpoint(url=server.url, model="m"), concurrency=2, on_progress=stop)
        interrupted.set()
    assert all(outcomes)
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert len(written.texts) == 1  # what had arrived is kept


@pytest.mark.parametrize(
    "failure",
    [socket.gaierror(-2, "Name or service not known"), ssl.SSLCertVerificationError("certificate has expired")],
    ids=["no such host", "bad certificate"],
)
def test_an_address_that_cannot_work_is_tried_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: OSError
) -> None:
    def connect(*arguments: object, **options: object) -> socket.socket:
        attempts.append(1)
        raise failure

    attempts: list[int] = []
    monkeypatch.setattr(socket, "create_connection", connect)
    endpoint = Endpoint(url="https://labels.example/v1", model="m", key=KEY)
    with pytest.raises(EndpointError, match=r"no connection to https://labels.example/v1 .*; check the address"):
        label_latents(folder, [0], endpoint)
    assert len(attempts) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 422, 501, 505])
def test_a_permanent_refusal_is_tried_once_and_shown_harmless(folder: Path, status: int) -> None:
    with serving(lambda *_: Reply(status, b"no\x1b[31m\nreally \xe2\x80\xae")) as server:
        with pytest.raises(EndpointError, match=f"refused with status {status}") as caught:
            label_latents(folder, [0], Endpoint(url=server.url, model="m"))
        assert len(server.requests) == 1
    assert "(no\\x1b[31m really \\u202e)" in str(caught.value)


@pytest.mark.parametrize("key", ["", "sk\n123", "sk 123", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="the key is empty or holds spaces") as caught:
        Endpoint(url="https://labels.example/v1", model="m", key=key)
    assert not key or key not in str(caught.value)


def test_two_at_once_are_refused(folder: Path) -> None:
    with only_writer(folder, "quadric label"), serving(label_of) as server:
        refused: list[BusyError] = []

        def second() -> None:
            try:
                label_latents(folder, [0], Endpoint(url=server.url, model="m"))
            except BusyError as busy:
                refused.append(busy)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert server.requests == []
    assert len(refused) == 1


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"null\n", b"[" * 100_000 + b"\n", b'{"key": 1, "label": {}}\n'])
def test_damaged_answers_of_earlier_runs_are_asked_again(folder: Path, damage: bytes) -> None:
    with serving(label_of) as server:
        endpoint = Endpoint(url=server.url, model="m")
        label_latents(folder, [0], endpoint)
        (folder / ANSWERS).write_bytes(damage + (folder / ANSWERS).read_bytes())
        assert label_latents(folder, [0, 1], endpoint, concurrency=1).from_before == 1
