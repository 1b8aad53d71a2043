"""The viewer's server: a site's files, and the API of a live session beside them, for this machine alone.

One Starlette application answers; uvicorn speaks HTTP, with limits on what a client may take. The application gives
out nothing but the site, under the loopback address's own Host, and every answer has the same safe headers.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from quadric._io.files import read_json
from quadric.viewer import writer
from quadric.viewer.schema import SCHEMA_VERSION
from quadric.viewer.writer import MANIFEST, check_viewer_built, is_site

if TYPE_CHECKING:
    from quadric.viewer.live.api import Api

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8417
MOST_CONNECTIONS = 128
"""Open at once; a browser opens six per tab."""
SECONDS_IDLE = 30.0
"""Before and between requests, and while a client reads nothing of an answer; browsers connect again when they must."""
SECONDS_PER_REQUEST = 30.0
"""From the first byte of a request to its last."""
LARGEST_HEAD = 1 << 15
"""Bytes of a request's target and headers."""
LOGGER = logging.getLogger("quadric.viewer")
LOGGER.addHandler(logging.NullHandler())  # what clients do wrong is printed only where a program asks for it
LIVE_MARK = b'<meta name="quadric-live" content="yes" />'
"""In the page of a live viewer, so that it offers what needs a language model only where there is one."""
PAGE = ("/", "/index.html")
CONTENT_TYPES = {
    ".css": "text/css",
    ".gz": "application/gzip",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".st": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
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


class SiteServer:
    """A running server on the loopback address, in a thread of its own; port 0 selects a free one."""

    def __init__(self, folder: Path, port: int = DEFAULT_PORT, api: "Api | None" = None) -> None:
        self.api = api
        try:
            self._socket = _listening(port)
        except (ValueError, OSError):
            self._close_api()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{LOOPBACK}:{self.port}/"
        self.ended = threading.Event()
        """An event, since a thread counts as ended once Ctrl-C has interrupted a wait for it (CPython 3.11)."""
        config = uvicorn.Config(
            site_app(folder, self.port, api),
            http=_Connection,
            loop="asyncio",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        self._server = uvicorn.Server(config)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        finally:
            self.ended.set()

    def close(self) -> None:
        """Stop answering, cancel what is running, and free the port."""
        self._server.should_exit = self._server.force_exit = True
        self._close_api()
        self.ended.wait(timeout=0.8)
        self._socket.close()

    def _close_api(self) -> None:
        if self.api is not None:
            self.api.close()


def _listening(port: int) -> socket.socket:
    """A socket on the loopback address; bound here, so that a port in use is an error before anything is started."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port={port} is not a port; give 0 to 65535, 0 for any free one")
    try:
        return socket.create_server((LOOPBACK, port), backlog=MOST_CONNECTIONS)
    except OSError as problem:
        raise OSError(f"port {port} cannot be used ({problem.strerror}); try --port 0 for any free one") from None


def site_app(folder: Path, port: int, api: "Api | None" = None) -> ASGIApp:
    """The application: the site's files, the API if there is one, and the guard before both.

    A live viewer is that of the package, since a site that was exported earlier has one that knows no live server.
    """
    root, viewer = folder.resolve(), writer.STATIC.resolve()

    def file(request: Request) -> Response:
        target = request.scope["raw_path"].decode("latin-1")
        if api is None or not (target in PAGE or target.startswith("/assets/")):
            return _file(root, target, request.headers)
        if target in PAGE:
            page = (viewer / "index.html").read_bytes()
            return HTMLResponse(page.replace(b"<head>", b"<head>" + LIVE_MARK, 1))
        return _file(viewer, target, request.headers)

    routes = [] if api is None else api.routes()
    return _Guard(Starlette(routes=[*routes, Route("/{path:path}", file, methods=["GET"])]), port)


def _file(folder: Path, target: str, headers: Mapping[str, str]) -> Response:
    """The file that a request names, whole or in part; nothing if the client has it already."""
    path = file_below(folder, target)
    if path is None:
        return PlainTextResponse("not found\n", HTTPStatus.NOT_FOUND)
    answer = FileResponse(path, media_type=CONTENT_TYPES[path.suffix], stat_result=path.stat())
    tag = answer.headers["etag"]
    known = [known.strip().removeprefix("W/") for known in headers.get("if-none-match", "").split(",")]
    if tag in known or known == ["*"]:
        return Response(None, HTTPStatus.NOT_MODIFIED, {"etag": tag})
    return answer


def file_below(folder: Path, target: str) -> Path | None:
    """The file that a request names, or None for other folders, hidden files, listings and unknown types."""
    if not target.startswith("/"):
        return None
    parts = [part for part in unquote(target).split("/") if part] or ["index.html"]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    try:
        path = folder.joinpath(*parts).resolve()
        is_served = path.is_relative_to(folder) and path.is_file() and path.suffix in CONTENT_TYPES
    except OSError:  # a name too long
        return None
    return path if is_served else None


class _Guard:
    """Refuses requests from elsewhere before anything else, and adds the safe headers to every answer."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app, self.port = app, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SAFE_HEADERS)
            await send(message)

        await (_refusal(scope, self.port) or self.app)(scope, receive, send_safely)


def _refusal(scope: Scope, port: int) -> Response | None:
    """The answer to a request that is too large or from elsewhere; None if it may be answered.

    A foreign page reaches this server only under a foreign Host (DNS rebinding), or with an Origin or Sec-Fetch-Site
    that browsers set and pages cannot change.
    """
    headers = Headers(scope=scope)
    # uvicorn bounds a head that is still incomplete; one that arrives at once could be larger.
    if len(scope["raw_path"]) + sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEAD:
        return PlainTextResponse("too large\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {"Connection": "close"})
    hosts = headers.getlist("host")
    if hosts not in ([f"{LOOPBACK}:{port}"], [f"localhost:{port}"]):
        return PlainTextResponse("wrong Host\n", HTTPStatus.MISDIRECTED_REQUEST)
    own = set(headers.getlist("origin")) <= {f"http://{host}" for host in hosts}
    if scope["path"].startswith("/api/") and not (own and set(headers.getlist("sec-fetch-site")) <= {"same-origin"}):
        return PlainTextResponse("requests of other pages are refused\n", HTTPStatus.FORBIDDEN)
    return None


class _Connection(H11Protocol):
    """One connection of uvicorn, which a client can neither hold for ever nor keep from others.

    uvicorn limits only the time between requests. Here a client also has limited time for a whole request, from its
    first byte, and for reading on in an answer; and no more than MOST_CONNECTIONS are open.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = LOGGER
        self.timeout_keep_alive = SECONDS_IDLE  # type: ignore[assignment]  # uvicorn's own setting is in whole seconds
        self._request_limit: asyncio.TimerHandle | None = None
        self._reading_limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Turn one connection too many away; from another, expect a request soon."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(_plain(HTTPStatus.SERVICE_UNAVAILABLE))
            transport.close()
        self.timeout_keep_alive_task = self.loop.call_later(SECONDS_IDLE, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for limit in (self.timeout_keep_alive_task, self._request_limit, self._reading_limit):
            if limit is not None:
                limit.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit_request()  # a part of the next request may have arrived already

    def _limit_request(self) -> None:
        """Give a request that has begun its time, once; a timer that each byte restarted could be kept from ending."""
        state = self.conn.their_state
        is_begun = state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0] != b"")
        if is_begun and self._request_limit is None:
            self._request_limit = self.loop.call_later(SECONDS_PER_REQUEST, self.transport.abort)
        elif not is_begun and self._request_limit is not None:
            self._request_limit.cancel()
            self._request_limit = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_limit = self.loop.call_later(SECONDS_IDLE, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_limit is not None:
            self._reading_limit.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection, whether or not the client has read the last answer."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP without repeating any of it."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_plain(HTTPStatus.BAD_REQUEST))
        self.transport.close()

    def shutdown(self) -> None:
        """End at once, rather than when the client has read all."""
        self.transport.abort()


def _plain(status: HTTPStatus) -> bytes:
    """An answer below the application, which ends the connection."""
    headers = {"Content-Length": "0", "Connection": "close"} | SAFE_HEADERS
    lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
