"""A hub on loopback that keeps repositories in memory: enough of the protocol for a push and a pull."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


class _Handler(BaseHTTPRequestHandler):
    server: "FakeHub"

    def log_message(self, *arguments: Any) -> None:
        """Silence: test output is for failures."""

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(("POST", path))
        if path == "/api/repos/create":
            name = json.loads(body)["name"]
            owner = json.loads(body).get("organization") or "someone"
            self.server.repos.setdefault(f"{owner}/{name}", {})
            self._json({"url": f"{self.server.address}/{owner}/{name}"})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            self._json({"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        elif "/commit/" in path:
            name = path.removeprefix("/api/models/").split("/commit/")[0]
            repo = self.server.repos[name]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    repo[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                if line["key"] == "deletedFile":
                    repo.pop(line["value"]["path"])
            url = f"{self.server.address}/{name}/commit/{COMMIT}"
            self._json({"commitUrl": url, "commitOid": COMMIT, "success": True})
        else:
            self._json({"error": path}, 404)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append((self.command, path))
        if path.startswith("/api/models/"):
            name = "/".join(path.removeprefix("/api/models/").split("/")[:2])
            self._describe(name, "/tree/" in path)
        elif "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            self._file(name, rest.split("/", 1)[1])
        else:
            self._json({"error": path}, 404)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _describe(self, name: str, as_tree: bool) -> None:
        if name not in self.server.repos:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository Not Found"})
            return
        files = self.server.repos[name]
        if as_tree:
            self._json([{"type": "file", "path": p, "size": len(b), "oid": "0" * 40} for p, b in files.items()])
        else:
            self._json({"id": name, "sha": COMMIT, "siblings": [{"rfilename": p} for p in files]})

    def _file(self, name: str, path: str) -> None:
        blob = self.server.repos.get(name, {}).get(path)
        if blob is None:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        self._answer(200, blob, {"ETag": f'"{hashlib.sha1(blob).hexdigest()}"', "X-Repo-Commit": COMMIT})


class FakeHub(ThreadingHTTPServer):
    """Repositories by name, files by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.seen: list[tuple[str, str]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running() -> Iterator[FakeHub]:
    """The hub, answering until the block ends."""
    with FakeHub() as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()
