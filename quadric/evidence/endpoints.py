"""Language models behind an HTTP endpoint, OpenAI-compatible or Anthropic's, and answers to many prompts at once.

The key is kept in memory only.
"""

import hashlib
import json
import queue
import re
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from quadric._io.files import name_disk_errors, read_regular
from quadric._io.terminal import one_line

Api = Literal["openai", "anthropic"]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANTHROPIC_VERSION = "2023-06-01"
ATTEMPTS = 6
ATTEMPTS_PER_ANSWER = 2
"""Requests for one answer before one that cannot be read counts as a failure."""
LONGEST_WAIT = 60.0
TIMEOUT = 120.0
"""Seconds without a single byte."""
DEADLINE = 300.0
"""Seconds for the body of an answer, however steadily its bytes arrive."""
MOST_ANSWER_TOKENS = 1024
LARGEST_ANSWER = 1 << 20
KEY = re.compile(r"[\x21-\x7e]+")
TEMPORARY = (408, 409, 425, 429, 500, 502, 503, 504, 507, 529)
"""Statuses after which another attempt may succeed; 529 is Anthropic's for an overloaded server."""


class EndpointError(OSError):
    """An endpoint refused the request or cannot be reached; trying again will not help."""


class _BusyError(Exception):
    """A temporary failure; `seconds` is the wait that the server requested, if any."""

    def __init__(self, why: str, seconds: float | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Return every answer as it is: no exception for a status, and no redirect, which would send the key elsewhere."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:
        return response

    https_response = http_response


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The address, name and protocol of a language model."""

    url: str
    """Base address, e.g. https://api.openai.com/v1 or http://localhost:8000/v1."""
    model: str
    api: Api = "openai"
    key: str | None = field(default=None, repr=False)
    deadline: float = DEADLINE

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"endpoint={self.url!r} is not an address; give e.g. https://api.openai.com/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("the endpoint's address contains a name, password or query; keep keys in the environment")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK and self.key:
            raise ValueError(f"the key would be sent unencrypted to {parts.hostname}; use https")
        if self.key is not None and not KEY.fullmatch(self.key):
            raise ValueError("the key is empty or holds spaces, line ends or letters beyond ASCII; set it again")

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine; a proxy would see the key in plain text, so none is used."""
        return urlsplit(self.url).hostname in LOOPBACK

    def ask(self, prompt: str, wait: Callable[[float], None] = time.sleep) -> str:
        """The model's answer; a busy server is tried again after the wait that it requests."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ask_once(prompt)
            except _BusyError as busy:
                if attempt == ATTEMPTS:
                    raise EndpointError(
                        f"{self.url} did not answer in {ATTEMPTS} attempts ({busy}); try later"
                    ) from busy
                wait(min(LONGEST_WAIT, 2.0 ** (attempt - 1) if busy.seconds is None else busy.seconds))
        raise AssertionError("unreachable")

    def _ask_once(self, prompt: str) -> str:
        proxies = [urllib.request.ProxyHandler({})] if self.is_local else []
        opener = urllib.request.build_opener(_AnyStatus, *proxies)
        ends = time.monotonic() + self.deadline
        content = b""
        try:
            with opener.open(self._request(prompt), timeout=min(TIMEOUT, self.deadline)) as response:
                # The socket's own timeout starts again with every byte.
                while (in_time := time.monotonic() < ends) and len(content) < LARGEST_ANSWER:
                    if not (part := response.read1(LARGEST_ANSWER)):
                        break
                    content += part
        except (OSError, HTTPException) as failure:
            raise _unreachable(failure, self) from None
        if not in_time:
            raise EndpointError(f"{self.url} did not finish an answer in {self.deadline:g} s; try later")
        if response.status in TEMPORARY:
            raise _BusyError(f"status {response.status}", _seconds(response.headers.get("retry-after")))
        if not 200 <= response.status < 300:
            raise self._refusal(response.status, content[:300])
        return self._text_in(content)

    def _refusal(self, status: int, content: bytes) -> EndpointError:
        reason = one_line(content.decode(errors="replace"))
        if self.key:
            reason = reason.replace(self.key, "…")  # some servers repeat the key that they reject
        remedy = {
            401: "check the key in the environment",
            403: "check the key in the environment",
            404: "check the endpoint's address and the model's name",
        }.get(status, "check the endpoint, --api and --model")
        return EndpointError(f"{self.url} refused with status {status} ({reason.strip()}); {remedy}")

    def _request(self, prompt: str) -> urllib.request.Request:
        path = "/chat/completions" if self.api == "openai" else "/messages"
        limit = "max_completion_tokens" if self.api == "openai" else "max_tokens"
        body = {"model": self.model, limit: MOST_ANSWER_TOKENS, "messages": [{"role": "user", "content": prompt}]}
        headers = {"content-type": "application/json", "user-agent": "quadric"}
        if self.api == "anthropic":
            headers["anthropic-version"] = ANTHROPIC_VERSION
        if self.key:
            headers |= {"x-api-key": self.key} if self.api == "anthropic" else {"authorization": f"Bearer {self.key}"}
        return urllib.request.Request(self.url.rstrip("/") + path, json.dumps(body).encode(), headers, method="POST")

    def _text_in(self, content: bytes) -> str:
        try:
            answer = json.loads(content)
            if self.api == "openai":
                text = answer["choices"][0]["message"]["content"]
            else:
                text = "".join(part["text"] for part in answer["content"] if part["type"] == "text")
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise _BusyError(f"an answer that is not in the format of {self.api}: {content[:80]!r}") from None
        return text if isinstance(text, str) else ""


def _unreachable(failure: Exception, endpoint: Endpoint) -> Exception:
    """The error for an endpoint without an answer: temporary, unless the address itself is wrong."""
    reason = getattr(failure, "reason", failure)
    final = isinstance(reason, (socket.gaierror, ssl.SSLCertVerificationError, InvalidURL, str))
    if not final:
        return _BusyError(f"no connection: {one_line(str(reason))}")
    return EndpointError(
        f"no connection to {endpoint.url} ({one_line(str(reason))}); check the address, and proxies in the environment"
    )


def _seconds(value: str | None) -> float | None:
    """The wait that a Retry-After header asks for; None for a date, which servers of language models do not send."""
    try:
        return max(0.0, float(value or ""))
    except ValueError:
        return None


class AnswerError(ValueError):
    """An answer that holds nothing of what was asked for."""


def value_in(answer: str, name: str) -> object:
    """The value of a name in the first JSON object of an answer; None if there is none."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        return json.loads(answer[start : end + 1])[name] if 0 <= start < end else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Answers(Generic[Asked, Answer]):
    """Answers to prompts. They are stored as they arrive, so that a second run requests only the missing ones.

    Args:
        path: The file in which they are stored, one per line.
        name: The name under which an answer holds its value, in JSON.
        read: The value in an answer to what was asked; AnswerError if there is none.
    """

    def __init__(self, path: Path, name: str, read: Callable[[Asked, str], Answer]) -> None:
        self.path, self.name, self.read = path, name, read
        self.found: dict[Asked, Answer] = {}
        self.failures: dict[Asked, str] = {}
        """Why a prompt has no answer."""
        self.n_stored = 0
        """Answers from earlier runs."""

    def request(
        self, prompts: dict[Asked, str], endpoint: Endpoint, concurrency: int, on_progress: Callable[[int], None]
    ) -> None:
        """Fill `found` and `failures`; what was found so far stays if this is interrupted."""
        known = stored_answers(self.path, self.name)
        keys = {asked: _key(endpoint, prompt) for asked, prompt in prompts.items()}
        for asked, key in keys.items():
            with suppress(AnswerError):  # a stored answer that was edited is requested again
                if key in known:
                    self.found[asked] = self.read(asked, json.dumps({self.name: known[key]}))
        self.n_stored = len(self.found)
        on_progress(self.n_stored)
        missing = {asked: prompt for asked, prompt in prompts.items() if asked not in self.found}
        for asked, outcome in self._outcomes(missing, endpoint, concurrency):
            if isinstance(outcome, AnswerError):
                self.failures[asked] = str(outcome)
            else:
                self.found[asked] = outcome
                _append(self.path, {"key": keys[asked], self.name: outcome})
            on_progress(len(self.found) + len(self.failures))

    def _outcomes(
        self, prompts: dict[Asked, str], endpoint: Endpoint, concurrency: int
    ) -> Iterator[tuple[Asked, Answer | AnswerError]]:
        """Outcomes as they arrive; an error other than AnswerError ends the iteration, and no new request is sent.

        Requests run in daemon threads, which are not waited for: after Ctrl-C an open one may take minutes to fail.
        """
        waiting: queue.SimpleQueue[tuple[Asked, str]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Asked, Answer | BaseException]] = queue.SimpleQueue()
        stop = threading.Event()
        for pair in prompts.items():
            waiting.put(pair)

        def work() -> None:
            while not stop.is_set():
                try:
                    asked, prompt = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((asked, self._outcome(asked, prompt, endpoint, stop)))
                except BaseException as problem:
                    done.put((asked, problem))

        for _ in range(min(concurrency, len(prompts))):
            threading.Thread(target=work, name="quadric-label", daemon=True).start()
        try:
            for _ in prompts:
                asked, outcome = done.get()
                if isinstance(outcome, BaseException) and not isinstance(outcome, AnswerError):
                    raise outcome
                yield asked, outcome
        finally:
            stop.set()

    def _outcome(self, asked: Asked, prompt: str, endpoint: Endpoint, stop: threading.Event) -> Answer | AnswerError:
        unreadable = AnswerError("no request was sent")
        for _ in range(ATTEMPTS_PER_ANSWER):
            try:
                return self.read(asked, endpoint.ask(prompt, partial(pause, stop)))
            except AnswerError as problem:
                unreadable = problem
        return unreadable


def pause(stop: threading.Event, seconds: float) -> None:
    """Wait before another attempt; InterruptedError if the requests are stopped meanwhile."""
    if stop.wait(seconds):
        raise InterruptedError("the requests were stopped")


def _key(endpoint: Endpoint, prompt: str) -> str:
    """Identifies a request."""
    return hashlib.sha256(json.dumps([endpoint.url, endpoint.model, prompt]).encode()).hexdigest()


def stored_answers(path: Path, name: str) -> dict[str, Any]:
    """Answers of earlier runs by key; a last line that was cut off is ignored."""
    known = {}
    for line in read_regular(path).split(b"\n") if path.is_file() else ():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            record = json.loads(line)
            known[str(record["key"])] = record[name]
    return known


def _append(path: Path, record: dict[str, Any]) -> None:
    """Append an answer on a line of its own, even after one that was cut off."""
    cut = path.is_file() and path.stat().st_size and not read_regular(path).endswith(b"\n")
    with name_disk_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut else "") + json.dumps(record, ensure_ascii=False) + "\n")
