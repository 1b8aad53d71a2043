"""Serve a site on the loopback address only, under its own Host, and nothing but its files."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from quadric._files import read_json
from quadric.site.schema import SCHEMA_VERSION
from quadric.site.writer import MANIFEST, check_viewer_built, is_site

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8417
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".gz": "application/gzip",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".st": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Types of the files of a site; other files in its folder are not served."""

CONTENT_SECURITY_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
"""Equal to web/csp.json, which puts the policy into the page for hosts that set no headers."""

SAFE_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in CONTENT_SECURITY_POLICY.items())
    + "; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}


def site_folder(site_or_run: Path) -> Path:
    """The folder itself if it is a site, or the site inside a run."""
    if not site_or_run.is_dir():
        raise FileNotFoundError(f"no folder '{site_or_run}'; give a site made by quadric site, or a run that holds one")
    for folder in (site_or_run, site_or_run / "site"):
        if is_site(folder):
            _check_servable(folder)
            return folder
    raise FileNotFoundError(
        f"'{site_or_run}' holds no site; make one: quadric site {site_or_run} --out {site_or_run / 'site'}"
    )


def _check_servable(folder: Path) -> None:
    version = read_json(folder / MANIFEST, "export it again").get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"'{folder}' has schema version {version!r}; this Quadric serves version {SCHEMA_VERSION}: "
            "export it again, or use the version of Quadric that made it"
        )
    check_viewer_built(folder)


def site_server(folder: Path, port: int = DEFAULT_PORT) -> ThreadingHTTPServer:
    """A server for the folder on the loopback address, not yet running; port 0 takes any free one."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port={port} is not a port; give 0 to 65535, 0 for any free one")
    try:
        return _LoopbackServer((LOOPBACK, port), partial(SiteHandler, folder.resolve()))
    except OSError as problem:
        raise OSError(f"port {port} cannot be used ({problem.strerror}); try --port 0 for any free one") from None


def address_of(server: ThreadingHTTPServer) -> str:
    """The address of a server."""
    return f"http://{LOOPBACK}:{server.server_address[1]}/"


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # a browser opens six connections per tab at once, and the default queue holds five

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a browser closes a connection early."""


class SiteHandler(BaseHTTPRequestHandler):
    """GET and HEAD for files below one folder."""

    server_version = "quadric"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *args: Any) -> None:
        self.folder = folder
        super().__init__(*args)

    def do_GET(self) -> None:
        self._respond(self.wfile.write)

    def do_HEAD(self) -> None:
        self._respond(lambda content: None)

    def _respond(self, send_body: Callable[[bytes], Any]) -> None:
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            # Under another name, a foreign page could read local files (DNS rebinding).
            return self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"wrong Host\n", send_body)
        path = file_below(self.folder, self.path)
        if path is None:
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n", send_body)
        return self._send(HTTPStatus.OK, CONTENT_TYPES[path.suffix], path.read_bytes(), send_body)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, send_body: Callable[[bytes], Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in SAFE_HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        send_body(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a page makes dozens of requests."""


def file_below(folder: Path, target: str) -> Path | None:
    """The file that a request names, or None for other folders, hidden files, listings and unknown types."""
    name = unquote(urlsplit(target).path)
    parts = [part for part in name.split("/") if part] or ["index.html"]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    path = folder.joinpath(*parts).resolve()
    if not path.is_relative_to(folder) or not path.is_file() or path.suffix not in CONTENT_TYPES:
        return None
    return path
