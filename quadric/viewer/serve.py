"""Serve a site on the loopback address only, under its own Host, and nothing but its files."""

import os
import re
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from quadric._io.files import read_json
from quadric.viewer.schema import SCHEMA_VERSION
from quadric.viewer.writer import MANIFEST, check_viewer_built, is_site

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8417
MOST_CONNECTIONS = 64
"""Open at once; a browser opens six per tab."""
SECONDS_IDLE = 30.0
"""Without a byte in either direction; a browser opens a closed connection again when it needs one."""
SECONDS_PER_REQUEST = 30.0
"""For the lines of one request."""
LARGEST_REQUEST = 1 << 15
"""Bytes of all lines of one request."""
PIECE = 1 << 16
"""Bytes of a file in memory per connection."""
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
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
        if (folder / MANIFEST).is_file():
            raise ValueError(f"{folder / MANIFEST} is damaged; export the site again with quadric site")
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


def is_own_host(hosts: list[str], port: int) -> bool:
    """Whether a request's Host headers name this server; under another name, a foreign page could read local files."""
    return hosts in ([f"{LOOPBACK}:{port}"], [f"localhost:{port}"])


def check_port(port: int) -> None:
    """Raise unless this is a port."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port={port} is not a port; give 0 to 65535, 0 for any free one")


def port_taken(port: int, problem: OSError) -> OSError:
    """The error for a port that cannot be used."""
    return OSError(f"port {port} cannot be used ({problem.strerror}); try --port 0 for any free one")


def site_server(folder: Path, port: int = DEFAULT_PORT) -> ThreadingHTTPServer:
    """A server for the folder on the loopback address, not yet running; port 0 takes any free one."""
    check_port(port)
    try:
        return _LoopbackServer((LOOPBACK, port), partial(SiteHandler, folder.resolve()))
    except OSError as problem:
        raise port_taken(port, problem) from None


def address_of(server: ThreadingHTTPServer) -> str:
    """The address of a server."""
    return f"http://{LOOPBACK}:{server.server_address[1]}/"


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # a browser opens six connections per tab at once, and the default queue holds five

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread of its own; one too many is turned away."""
        if not self.free.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a browser closes a connection early."""


class SiteHandler(BaseHTTPRequestHandler):
    """GET and HEAD for files below one folder, whole or a range of their bytes."""

    server_version = "quadric"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = SECONDS_IDLE
    """For every read and write; a client that takes longer is disconnected."""

    def __init__(self, folder: Path, *args: Any) -> None:
        self.folder = folder
        super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _RequestReader(self.rfile)

    def handle_one_request(self) -> None:
        self.rfile.start_request()
        self.requestline = self.command = ""
        self.request_version = self.protocol_version
        try:
            super().handle_one_request()
        except LineTooLong:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        port = self.connection.getsockname()[1]
        if not is_own_host(self.headers.get_all("Host") or [], port):
            # Under another name, a foreign page could read local files (DNS rebinding).
            return self._say(HTTPStatus.MISDIRECTED_REQUEST, b"wrong Host\n", with_body)
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body would be read as the next request
        file = open_below(self.folder, self.path)
        if file is None:
            return self._say(HTTPStatus.NOT_FOUND, b"not found\n", with_body)
        with file.opened:
            return self._send(file, with_body)

    def _send(self, file: "ServedFile", with_body: bool) -> None:
        answer = answer_with(file, self.headers.get)
        self._start(answer.status, answer.headers)
        if with_body:
            self._copy(file.opened, answer.part)

    def _copy(self, opened: BinaryIO, part: range) -> None:
        """Send the bytes of an open file in pieces, so that slow readers of large files take no memory."""
        opened.seek(part.start)
        left = len(part)
        while left and (piece := opened.read(min(left, PIECE))):
            self.wfile.write(piece)
            left -= len(piece)
        if left:  # the file was cut off meanwhile: the client must not take it for whole
            self.close_connection = True

    def _say(self, status: HTTPStatus, words: bytes, with_body: bool) -> None:
        self._start(status, {"Content-Type": "text/plain", "Content-Length": str(len(words))})
        if with_body:
            self.wfile.write(words)

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | SAFE_HEADERS).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what http.server refuses by itself without repeating any of it."""
        self.close_connection = True
        self.request_version = self.protocol_version  # in version 0.9 an answer has no status
        self._say(HTTPStatus(code), b"refused\n", with_body=self.command != "HEAD")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a page makes dozens of requests."""


class _RequestReader:
    """The lines of requests, with limits on the size of one and on the time that it may take.

    A socket's timeout starts again with every byte, so a client that sends one at a time could hold a connection open
    for ever.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.start_request()

    def start_request(self) -> None:
        """The next line begins a request."""
        self.left, self.deadline = LARGEST_REQUEST, 0.0

    def readline(self, limit: int) -> bytes:
        """The next line of a request; LineTooLong or TimeoutError if the request is too large or too slow."""
        line = b""
        while not line.endswith(b"\n") and len(line) < limit:
            arrived = self.file.peek()  # waits for one byte at least
            if not arrived:
                break
            self.deadline = self.deadline or time.monotonic() + SECONDS_PER_REQUEST
            piece = self.file.read1(min(arrived.find(b"\n") + 1 or len(arrived), limit - len(line)))
            self.left -= len(piece)
            if self.left < 0:
                raise LineTooLong("request")
            if time.monotonic() > self.deadline:
                raise TimeoutError("a slow request")
            line += piece
        return line

    def close(self) -> None:
        """Close the connection's reading side."""
        self.file.close()

    @property
    def closed(self) -> bool:
        return bool(self.file.closed)


class ServedFile(NamedTuple):
    """An open file of a site."""

    opened: BinaryIO
    size: int
    kind: str
    tag: str
    """Changes whenever the file is written again."""


class FileAnswer(NamedTuple):
    """How a request for an open file is answered."""

    status: HTTPStatus
    headers: dict[str, str]
    part: range
    """The bytes to send; a HEAD request leaves them out."""


def answer_with(file: ServedFile, header: Callable[[str], str | None]) -> FileAnswer:
    """Answer a request for a file: whole, in part, or not at all if the client has it.

    Args:
        file: The open file.
        header: Gives the value of a header of the request, or None.

    Returns:
        Status, headers and the bytes to send.
    """
    known = [tag.strip().removeprefix("W/") for tag in (header("If-None-Match") or "").split(",")]
    if file.tag in known or known == ["*"]:
        return FileAnswer(HTTPStatus.NOT_MODIFIED, {"ETag": file.tag}, range(0))
    unchanged = header("If-Range") in (None, file.tag)
    part = byte_range(header("Range") if unchanged else None, file.size)
    headers = {"Content-Type": file.kind, "ETag": file.tag, "Accept-Ranges": "bytes"}
    if part is None:
        headers |= {"Content-Range": f"bytes */{file.size}", "Content-Length": "0"}
        return FileAnswer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers, range(0))
    headers["Content-Length"] = str(len(part))
    if len(part) == file.size:
        return FileAnswer(HTTPStatus.OK, headers, part)
    headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.size}"
    return FileAnswer(HTTPStatus.PARTIAL_CONTENT, headers, part)


def open_below(folder: Path, target: str) -> ServedFile | None:
    """Open the file that a request names; None for whatever is not a file of the site."""
    try:
        path = file_below(folder, target)
        if path is None:
            return None
        # NOFOLLOW: the path has no links left, unless somebody changed it just now.
        opened = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    except (OSError, ValueError):  # removed meanwhile, a name too long, or no address at all
        return None
    state = os.fstat(opened.fileno())
    if not stat.S_ISREG(state.st_mode):
        opened.close()
        return None
    tag = f'"{state.st_ino:x}-{state.st_mtime_ns:x}-{state.st_size:x}"'
    return ServedFile(opened, state.st_size, CONTENT_TYPES[path.suffix], tag)


def file_below(folder: Path, target: str) -> Path | None:
    """The file that a request names, or None for other folders, hidden files, listings and unknown types."""
    if not target.startswith("/"):
        return None
    name = unquote(urlsplit(target).path, errors="strict")
    parts = [part for part in name.split("/") if part] or ["index.html"]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    path = folder.joinpath(*parts).resolve()
    if not path.is_relative_to(folder) or not path.is_file() or path.suffix not in CONTENT_TYPES:
        return None
    return path


def byte_range(header: str | None, size: int) -> range | None:
    """The bytes that a Range header asks for: all of them without a header or with one that is not understood.

    Args:
        header: "bytes=0-99", "bytes=100-" or "bytes=-100"; several ranges at once are answered with the whole file.
        size: Size of the file.

    Returns:
        The bytes; None if they lie beyond the end of the file.
    """
    found = RANGE.fullmatch(header or "")
    if found is None or not any(found.groups()):
        return range(size)
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        return range(size - length, size) if length else None
    start, stop = int(first), min(int(last) + 1 if last else size, size)
    if last and int(last) < int(first):
        return range(size)
    return range(start, stop) if start < size else None
