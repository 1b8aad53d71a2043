"""The API of a live viewer: questions of the page, answered one after the other by the language model.

An answer is a stream of JSON lines: {"state": "waiting", "ahead": 2}, {"state": "running", "done": 3, "total": 40}, and
last {"state": "done", "answer": …} or {"state": "failed", "message": …}. When the client hangs up, the work stops.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quadric.viewer.live.session import Session
from quadric.viewer.live.worker import BusyError, CancelledError, Job, Worker, stop_when_cancelled

LARGEST_BODY = 1 << 16
SECONDS_BETWEEN_LINES = 0.1
"""How often a stream looks whether there is progress to report."""
NDJSON = "application/x-ndjson"


class Api:
    """What a page can ask a session, and the thread that answers; `close` ends it."""

    def __init__(self, session: Session) -> None:
        self.session, self.worker = session, Worker()
        self._hooks = ExitStack()
        self._hooks.enter_context(stop_when_cancelled(session.model.layers, self.worker))

    def routes(self) -> list[Route]:
        """The addresses of the API."""
        return [
            Route("/api/status", self._status, methods=["GET"]),
            *(Route(f"/api/{name}", partial(self._ask, name), methods=["POST"]) for name in self.session.methods),
        ]

    def close(self) -> None:
        """Cancel what is running and end the thread."""
        self.worker.close()
        self._hooks.close()

    async def _status(self, request: Request) -> Response:
        return JSONResponse(self.session.status())

    async def _ask(self, method: str, request: Request) -> Response:
        """Queue a question and stream its progress and answer."""
        try:
            asked = await _body(request)
            job = self.worker.submit(partial(self.session.methods[method], asked))
        except ClientDisconnect:
            return Response(None)
        except HTTPException as refusal:
            return _failure(refusal.status_code, refusal.detail)
        except BusyError as problem:
            return _failure(HTTPStatus.SERVICE_UNAVAILABLE, f"busy: {problem}", {"Retry-After": "1"})
        return StreamingResponse(self._progress(job), media_type=NDJSON)

    async def _progress(self, job: Job) -> AsyncIterator[bytes]:
        """Lines until the answer; Starlette ends this when the client hangs up."""
        loop, finished = asyncio.get_running_loop(), asyncio.Event()

        def wake(result: object) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(finished.set)

        shown: dict[str, Any] = {}
        try:
            job.result.add_done_callback(wake)
            while not finished.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(finished.wait(), SECONDS_BETWEEN_LINES)
                if not finished.is_set() and (state := self._state(job)) != shown:
                    shown = state
                    yield _line(state)
            yield _answer(job)
        finally:
            job.cancel()  # nothing, if it is done

    def _state(self, job: Job) -> dict[str, Any]:
        if not job.started:
            return {"state": "waiting", "ahead": self.worker.ahead_of(job)}
        return {"state": "running", "done": job.done, "total": job.total}


def _answer(job: Job) -> bytes:
    """The last line: the answer, or why there is none."""
    problem = job.result.exception()
    if problem is None:
        return _line({"state": "done", "answer": job.result.result()})
    if isinstance(problem, ValueError):
        message = str(problem)
    elif isinstance(problem, CancelledError):
        message = "the request was cancelled"
    else:
        message = f"something went wrong in the server ({type(problem).__name__})"
    return _line({"state": "failed", "message": message})


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object that a request sends; read only as far as it may go."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        # A form of a foreign page cannot have this type.
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > LARGEST_BODY:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the request is larger than {LARGEST_BODY >> 10} KiB; shorten it, or use quadric explain",
            )
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the request is not JSON") from None
    if not isinstance(found, dict):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the request is not a JSON object")
    return found


def _failure(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"state": "failed", "message": message}, status, headers)


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
