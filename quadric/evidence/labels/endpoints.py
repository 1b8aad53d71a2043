"""Language models behind an HTTP endpoint: OpenAI-compatible or Anthropic's. The key is kept in memory only."""

import email.utils
import json
import queue
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException, InvalidURL
from typing import Any, Literal
from urllib.parse import urlsplit

from quadric._io.terminal import one_line

Api = Literal["openai", "anthropic"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANTHROPIC_VERSION = "2023-06-01"
ATTEMPTS = 6
LONGEST_WAIT = 60.0
TIMEOUT = 120.0
"""Seconds without a single byte."""
DEADLINE = 300.0
"""Seconds for a whole answer, however steadily its bytes arrive."""
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


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: they would send the key to another host."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The address, name and protocol of a language model."""

    url: str
    """Base address, e.g. https://api.openai.com/v1 or http://localhost:8000/v1."""
    model: str
    api: Api = "openai"
    key: str | None = field(default=None, repr=False)
    deadline: float = DEADLINE
    """Seconds for a whole answer."""

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
        opener = urllib.request.build_opener(_NoRedirect, *proxies)

        def exchange() -> bytes:
            try:
                with opener.open(self._request(prompt), timeout=min(TIMEOUT, self.deadline)) as response:
                    content: bytes = response.read(LARGEST_ANSWER)
            except urllib.error.HTTPError as refusal:
                with refusal:  # it keeps the connection open
                    raise _meaning(refusal, self) from None
            return content

        try:
            content = _within(self.deadline, exchange)
        except _DeadlineError:
            raise EndpointError(f"{self.url} did not finish an answer in {self.deadline:g} s; try later") from None
        except EndpointError:
            raise
        except (OSError, HTTPException) as failure:
            raise _unreachable(failure, self) from None
        return self._text_in(content)

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


class _DeadlineError(Exception):
    """Work that took too long."""


def _within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """The result of some work, or _DeadlineError.

    The work is done by a daemon thread, which is abandoned if it takes too long: a socket's own timeout starts again
    with every byte, so a server that sends one byte a minute would never end.
    """
    results: queue.SimpleQueue[tuple[bytes, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((work(), None))
        except BaseException as problem:
            results.put((b"", problem))

    threading.Thread(target=run, name="quadric-endpoint", daemon=True).start()
    try:
        content, problem = results.get(timeout=seconds)
    except queue.Empty:
        raise _DeadlineError from None
    if problem is not None:
        raise problem
    return content


def _unreachable(failure: Exception, endpoint: Endpoint) -> Exception:
    """The error for an endpoint without an answer: temporary, unless the address itself is wrong."""
    reason = getattr(failure, "reason", failure)
    final = isinstance(reason, (socket.gaierror, ssl.SSLCertVerificationError, InvalidURL, str))
    if not final:
        return _BusyError(f"no connection: {one_line(str(reason))}")
    return EndpointError(
        f"no connection to {endpoint.url} ({one_line(str(reason))}); check the address, and proxies in the environment"
    )


def _meaning(refusal: urllib.error.HTTPError, endpoint: Endpoint) -> Exception:
    """The error for an HTTP status: temporary or final."""
    if refusal.code in TEMPORARY:
        return _BusyError(f"status {refusal.code}", _retry_after(refusal.headers.get("retry-after")))
    said = one_line(_body(refusal))
    if endpoint.key:
        said = said.replace(endpoint.key, "…")  # some servers repeat the key that they reject
    remedy = {
        401: "check the key in the environment",
        403: "check the key in the environment",
        404: "check the endpoint's address and the model's name",
    }.get(refusal.code, "check the endpoint, --api and --model")
    return EndpointError(f"{endpoint.url} refused with status {refusal.code} ({said.strip()}); {remedy}")


def _body(refusal: urllib.error.HTTPError) -> str:
    """The beginning of what a server said; nothing if it breaks off."""
    try:
        return refusal.read(300).decode(errors="replace")
    except (OSError, HTTPException):
        return ""


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
