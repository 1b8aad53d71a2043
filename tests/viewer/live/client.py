"""A client of the live API: raw enough to be hostile."""

import http.client
import json
from typing import Any


def ask(
    port: int, method: str, body: Any, *, headers: dict[str, str] | None = None, timeout: float = 60
) -> tuple[int, list[dict[str, Any]], dict[str, str]]:
    """Status, JSON lines and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", f"/api/{method}", content, {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    lines = answer.read()
    connection.close()
    found = [json.loads(line) for line in lines.splitlines()] if lines[:1] in (b"{", b"[") else []
    return answer.status, found, {name.lower(): value for name, value in answer.getheaders()}


def answer_of(port: int, method: str, body: Any) -> dict[str, Any]:
    """The answer to a question that must be answered."""
    status, lines, _ = ask(port, method, body)
    assert status == 200, lines
    assert lines[-1]["state"] == "done", lines[-1]
    answer: dict[str, Any] = lines[-1]["answer"]
    return answer
