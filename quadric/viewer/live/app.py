"""The ASGI application of a live viewer: the site's files, and the API beside them.

An answer of the API is a stream of JSON lines: {"state": "waiting", "ahead": 2}, {"state": "running", "done": 3,
"total": 40}, and last {"state": "done", "answer": …} or {"state": "failed", "message": …}. When the client hangs up,
the work stops.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quadric.viewer import writer
from quadric.viewer.live.answers import Answers
from quadric.viewer.live.session import Session
from quadric.viewer.live.worker import BusyError, CancelledError, Job, Worker
from quadric.viewer.serve import PIECE, SAFE_HEADERS, answer_with, is_own_host, open_below

LARGEST_BODY = 1 << 16
SECONDS_FOR_BODY = 10.0
SECONDS_BETWEEN_LOOKS = 0.1
"""How often a stream looks whether its client is still there."""
PAGE = ("/", "/index.html")
NDJSON = "application/x-ndjson"
LIVE_MARK = b'<meta name="quadric-live" content="yes" />'
"""In the page, so that it offers what needs a server only where there is one."""


def live_app(folder: Path, session: Session, worker: Worker, port: int) -> ASGIApp:
    """The application.

    Args:
        folder: The site.
        session: What can be asked.
        worker: The thread that answers.
        port: The port of the server, which requests must name as their Host.

    Returns:
        An ASGI application for the loopback address.
    """
    api = _Api(session, worker)
    files = partial(_file, folder.resolve(), writer.STATIC.resolve())
    routes = [
        Route("/api/status", api.status, methods=["GET"]),
        *(Route(f"/api/{name}", partial(api.ask, name), methods=["POST"]) for name in session.methods),
        Route("/{path:path}", files, methods=["GET", "HEAD"]),
    ]
    return _Guarded(Starlette(routes=routes), port)


class _Guarded:
    """Refuses foreign hosts and foreign pages before anything else, and adds the safe headers to every answer."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app, self.port = app, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        refusal = refused(scope["path"], headers, self.port)
        answer: ASGIApp = self.app if refusal is None else refusal

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = {name.encode(): value.encode() for name, value in SAFE_HEADERS.items()}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in more.items() if name.lower() not in own),
                ]
            await send(message)

        await answer(scope, receive, send_safely)


def refused(path: str, headers: list[tuple[str, str]], port: int) -> Response | None:
    """The answer to a request from elsewhere; None if it may be answered.

    A foreign page reaches this server only under a foreign Host (DNS rebinding), or with an Origin or Sec-Fetch-Site
    that browsers set and pages cannot change.
    """

    def values(name: str) -> list[str]:
        return [value for found, value in headers if found.lower() == name]

    if not is_own_host(values("host"), port):
        return PlainTextResponse("wrong Host\n", HTTPStatus.MISDIRECTED_REQUEST)
    if not path.startswith("/api/"):
        return None
    own = {f"http://{host}" for host in values("host")}
    if not set(values("origin")) <= own or not set(values("sec-fetch-site")) <= {"same-origin"}:
        return PlainTextResponse("requests of other pages are refused\n", HTTPStatus.FORBIDDEN)
    return None


async def _file(folder: Path, viewer: Path, request: Request) -> Response:
    """A file of the site, streamed; the page itself says that it is live.

    The viewer is that of the package, since a site that was exported earlier has one that knows no live server.
    """
    target = request.scope["raw_path"].decode("latin-1")
    is_viewer = target in PAGE or target.startswith("/assets/")
    file = await anyio.to_thread.run_sync(open_below, viewer if is_viewer else folder, target)
    if file is None:
        return PlainTextResponse("not found\n", HTTPStatus.NOT_FOUND)
    if target in PAGE:
        with file.opened:
            return _page(file.opened.read(), request)
    answer = answer_with(file, request.headers.get)
    if request.method == "HEAD" or not answer.part:
        file.opened.close()
        return Response(None, answer.status, answer.headers)
    return StreamingResponse(_pieces(file.opened, answer.part), answer.status, answer.headers)


def _page(content: bytes, request: Request) -> Response:
    marked = content.replace(b"<head>", b"<head>" + LIVE_MARK, 1)
    tag = f'"{hashlib.sha256(marked).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == tag:
        return Response(None, HTTPStatus.NOT_MODIFIED, {"ETag": tag})
    return Response(marked, HTTPStatus.OK, {"ETag": tag}, media_type="text/html")


async def _pieces(opened: BinaryIO, part: range) -> AsyncIterator[bytes]:
    with opened:
        opened.seek(part.start)
        left = len(part)
        while left and (piece := await anyio.to_thread.run_sync(opened.read, min(left, PIECE))):
            yield piece
            left -= len(piece)


class _Api:
    def __init__(self, session: Session, worker: Worker) -> None:
        self.session, self.worker, self.answers = session, worker, Answers()

    async def status(self, request: Request) -> Response:
        return JSONResponse(self.session.status())

    async def ask(self, method: str, request: Request) -> Response:
        """Queue a request and stream its progress and answer."""
        try:
            asked = await _body(request)
        except _RefusedError as refusal:
            return _problem(refusal.status, str(refusal))
        except ClientDisconnect:
            return Response(None)
        question = json.dumps([method, asked], sort_keys=True)
        known = self.answers.get(question)
        if known is not None:
            return Response(known, media_type=NDJSON)
        try:
            job = self.worker.submit(partial(self.session.methods[method], asked))
        except BusyError as problem:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, f"busy: {problem}", {"Retry-After": "1"})
        return StreamingResponse(self._progress(request, job, question), media_type=NDJSON)

    async def _progress(self, request: Request, job: Job, question: str) -> AsyncIterator[bytes]:
        finished = asyncio.wrap_future(_observed(job))
        shown: dict[str, Any] = {}
        try:
            while True:
                await asyncio.wait([finished], timeout=SECONDS_BETWEEN_LOOKS)
                if finished.done():
                    yield self._answer(finished, question)
                    return
                if await request.is_disconnected():
                    return
                state = self._state(job)
                if state != shown:
                    shown = state
                    yield _line(state)
        finally:
            job.cancel()  # nothing, if it is done

    def _state(self, job: Job) -> dict[str, Any]:
        if not job.started:
            return {"state": "waiting", "ahead": self.worker.ahead_of(job)}
        return {"state": "running", "done": job.done, "total": job.total}

    def _answer(self, finished: "asyncio.Future[Any]", question: str) -> bytes:
        problem = finished.exception()
        if problem is None:
            line = _line({"state": "done", "answer": finished.result()})
            self.answers.put(question, line)
            return line
        if isinstance(problem, ValueError):
            return _line({"state": "failed", "message": str(problem)})
        if isinstance(problem, CancelledError):
            return _line({"state": "failed", "message": "the request was cancelled"})
        return _line({"state": "failed", "message": f"something went wrong in the server ({type(problem).__name__})"})


def _observed(job: Job) -> "Future[Any]":
    """The job's result as a future of its own: cancelling the wait must not touch the worker's."""
    mirror: Future[Any] = Future()

    def copy(result: "Future[Any]") -> None:
        if not mirror.set_running_or_notify_cancel():
            return
        problem = result.exception()
        with suppress(Exception):
            mirror.set_result(result.result()) if problem is None else mirror.set_exception(problem)

    job.result.add_done_callback(copy)
    return mirror


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object that a request sends; read only as far as it may go."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        # A form of a foreign page cannot have this type.
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
    content = b""
    try:
        async with asyncio.timeout(SECONDS_FOR_BODY):
            async for piece in request.stream():
                content += piece
                if len(content) > LARGEST_BODY:
                    raise _RefusedError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"the request is larger than {LARGEST_BODY >> 10} KiB; shorten it, or use quadric explain",
                    )
    except TimeoutError:
        raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not JSON") from None
    if not isinstance(found, dict):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not a JSON object")
    return found


def _problem(status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"state": "failed", "message": message}, status, headers)


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
