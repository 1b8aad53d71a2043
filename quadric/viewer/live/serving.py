"""The live server: uvicorn on the loopback address, in a thread, ended within a second."""

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import uvicorn

from quadric.viewer.live.app import live_app
from quadric.viewer.live.session import Session
from quadric.viewer.live.worker import Worker, stop_when_cancelled
from quadric.viewer.serve import LOOPBACK, check_port, port_taken

MOST_CONNECTIONS = 256
SECONDS_IDLE = 30
SECONDS_TO_START = 10.0
LARGEST_HEAD = 1 << 15


class LiveServer:
    """A running live server; `close` ends it and whatever it is computing.

    Args:
        folder: The site.
        session: What can be asked.
        port: Port to listen on; 0 selects a free one.
    """

    def __init__(self, folder: Path, session: Session, port: int) -> None:
        check_port(port)
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.session, self.worker = session, Worker()
        self._hooks = ExitStack()
        self._hooks.enter_context(stop_when_cancelled(session.model.layers, self.worker))
        config = uvicorn.Config(
            live_app(folder, session, self.worker, self.port),
            lifespan="off",
            ws="none",
            loop="asyncio",
            http="h11",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=SECONDS_IDLE,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        self._server = uvicorn.Server(config)
        # An event, since a thread counts as ended once Ctrl-C has interrupted a wait for it (CPython 3.11).
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        finally:
            self._ended.set()

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def join(self, timeout: float) -> bool:
        """Wait for the end of the server; returns whether it still runs."""
        return not self._ended.wait(timeout)

    def close(self) -> None:
        """Stop answering, cancel what is running, and free the port."""
        self._server.should_exit = self._server.force_exit = True
        self.worker.close()
        self._ended.wait(timeout=0.8)
        self._socket.close()
        self._hooks.close()


def _listening(port: int) -> socket.socket:
    """A socket on the loopback address; bound here, so that a port in use is an error before anything is started."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=MOST_CONNECTIONS)
    except OSError as problem:
        raise port_taken(port, problem) from None
