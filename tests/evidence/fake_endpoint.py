"""A language model on loopback that answers, refuses and errs as it is told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012, never changed


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def openai_reply(text: str) -> Reply:
    return Reply(200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())


def anthropic_reply(text: str) -> Reply:
    parts = [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": text}]
    return Reply(200, json.dumps({"content": parts}).encode())


class FakeEndpoint:
    """Answers request number i with `answer(i, request)`."""

    def __init__(self, answer: Callable[[int, Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._open = 0
        self._lock = threading.Lock()
        self.url = ""

    def handle(self, request: Request) -> Reply:
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        reply = self.answer(number, request)
        with self._lock:
            self._open -= 1
        return reply


@contextmanager
def serving(answer: Callable[[int, Request], Reply]) -> Iterator[FakeEndpoint]:
    endpoint = FakeEndpoint(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = endpoint.handle(Request(self.path, headers, body))
            self.send_response(reply.status)
            for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
