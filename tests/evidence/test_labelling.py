"""Labels by a model: requested once, stored at once, marked unevaluated; the key is sent to the endpoint only."""

import json
import threading
from pathlib import Path

import pytest

from quadric.evidence import Evidence
from quadric.evidence.endpoints import ATTEMPTS, Endpoint, EndpointError
from quadric.evidence.labelling import ANSWERS, AnswerError, label_in, label_latents, prompt_for
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


def test_a_busy_server_is_asked_again_when_it_says(folder: Path) -> None:
    def busy_at_first(number: int, request: Request) -> Reply:
        replies = [Reply(429, b"", {"retry-after": "7"}), Reply(503, b""), Reply(200, b"<html>")]
        return replies[number] if number < len(replies) else label_of(number, request)

    waits: list[float] = []
    with serving(busy_at_first) as server:
        report = label_latents(folder, [0], Endpoint(url=server.url, model="m"), sleep=waits.append)
    assert len(report.labelled) == 1
    assert waits == [7, 2, 4]


def test_a_date_to_come_back_at_is_understood_and_a_long_wait_cut(folder: Path) -> None:
    def busy(number: int, request: Request) -> Reply:
        dates = ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2099 07:28:00 GMT", "soon"]
        return Reply(429, b"", {"retry-after": dates[number]}) if number < 3 else label_of(number, request)

    waits: list[float] = []
    with serving(busy) as server:
        label_latents(folder, [0], Endpoint(url=server.url, model="m"), sleep=waits.append)
    assert waits == [0, 60, 4]


def test_a_server_that_stays_busy_ends_it(folder: Path) -> None:
    with serving(lambda *_: Reply(500, b"")) as server:
        endpoint = Endpoint(url=server.url, model="m")
        with pytest.raises(EndpointError, match=f"did not answer in {ATTEMPTS} attempts"):
            label_latents(folder, [0], endpoint, sleep=lambda _: None)
    with pytest.raises(EndpointError, match="no connection"):  # the server is closed
        label_latents(folder, [0], endpoint, sleep=lambda _: None)


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
