"""A hub on loopback that serves model folders: enough of the protocol to load one."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

COMMIT = "d" * 40


class Hub(NamedTuple):
    address: str
    commit: str


@contextmanager
def loopback_hub(folders: dict[str, Path]) -> Iterator[Hub]:
    """Serve some folders under the names of repositories."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Silence: test output is for failures."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = urlsplit(self.path).path.strip("/")
            for name, folder in folders.items():
                if path in (f"api/models/{name}", f"api/models/{name}/revision/{COMMIT}"):
                    files = [{"rfilename": file.name} for file in folder.iterdir()]
                    content = json.dumps({"id": name, "sha": COMMIT, "siblings": files, "tags": []}).encode()
                    return self._send(200, content, body)
                for revision in ("main", COMMIT):
                    file = folder / path.removeprefix(f"{name}/resolve/{revision}/")
                    if path.startswith(f"{name}/resolve/{revision}/") and file.is_file():
                        return self._send(200, file.read_bytes(), body)
                if path.startswith((f"{name}/resolve/", f"api/models/{name}/tree/")):
                    return self._send(404, b"", body, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return self._send(404, b"", body, {"X-Error-Code": "RepoNotFound"})

        def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            own = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            for name, value in (headers or own).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Hub(f"http://127.0.0.1:{server.server_port}", COMMIT)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
