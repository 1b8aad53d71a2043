"""Any bytes at all to the server of a site: an answer below 500 or a closed connection, and no file but the site's."""

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.viewer import serve
from quadric.viewer.serve import SiteServer

SECRET = b"the user's own file"
TARGETS = [
    *("/", "/index.html", "/data/site.json", "/assets/app.js", "/%2e%2e/secret.json", "/../secret.json", "//secret"),
    *("/data/..%2f..%2fsecret.json", "/..\\secret.json", "/%00", "/%ff%fe", "*", "http://evil/", "/link.json", "//["),
    *("/.hidden.json", "/" + "a" * 300, "/data/" + "../" * 50 + "secret.json", "/data//site.json", "/data/site.json/"),
]


@pytest.fixture(scope="module")
def server(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    folder = tmp_path_factory.mktemp("served")
    site = shutil.copytree(whole / "run/site", folder / "site")
    for path in (folder / "secret.json", site / ".hidden.json", site / "secret.py"):
        path.write_bytes(SECRET)
    (site / "link.json").symlink_to(folder / "secret.json")
    with pytest.MonkeyPatch.context() as patch:
        # A request that never ends, or the silence after an answer, takes half a minute otherwise.
        patch.setattr(serve, "SECONDS_PER_REQUEST", 0.05)
        patch.setattr(serve, "SECONDS_IDLE", 0.05)
        with closing(SiteServer(site, 0)) as running:
            yield running


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.get_records("call") if record.name.startswith(("asyncio", "uvicorn"))] == []


def answer(server: SiteServer, request: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        try:
            connection.sendall(request)
            while piece := connection.recv(65536):
                found += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
    return found


def check(server: SiteServer, request: bytes) -> None:
    found = answer(server, request)
    assert SECRET not in found
    if found.startswith(b"HTTP/"):
        status = int(found.split()[1])
        assert status < 500, found[:200]
    assert b"Traceback" not in found


def word(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices) | st.text(st.characters(max_codepoint=255), max_size=30)


def test_any_bytes(server: SiteServer, count: Callable[[], None]) -> None:
    @settings(settings.get_profile("faults"), max_examples=150)
    @given(st.binary(max_size=400) | st.lists(st.binary(max_size=40), max_size=9).map(b"\r\n".join))
    def try_one(request: bytes) -> None:
        count()
        check(server, request)

    try_one()
    check_alive(server)


def test_requests_that_are_nearly_right(server: SiteServer, count: Callable[[], None]) -> None:
    own = f"127.0.0.1:{server.port}"
    names = word("Range", "If-None-Match", "If-Range", "Connection", "Content-Length", "Transfer-Encoding", "Host")
    values = word("bytes=0-1", "bytes=5-", "bytes=-9", "keep-alive", "9" * 30, "chunked", "-1", "*", own, '"x"')

    @settings(settings.get_profile("faults"), max_examples=300)
    @given(
        method=word("GET", "HEAD", "POST", "get", "OPTIONS"),
        target=word(*TARGETS),
        version=word("HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", ""),
        host=st.sampled_from([own, own, own, "evil.example", "", own + ":1"]),
        headers=st.lists(st.tuples(names, values), max_size=5),
    )
    def try_one(method: str, target: str, version: str, host: str, headers: list[tuple[str, str]]) -> None:
        count()
        lines = [f"{method} {target} {version}", f"Host: {host}", *(f"{name}: {value}" for name, value in headers)]
        check(server, "\r\n".join([*lines, "", ""]).encode("latin-1"))

    try_one()
    check_alive(server)


def check_alive(server: SiteServer) -> None:
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n"
    assert answer(server, request.encode()).startswith(b"HTTP/1.1 200 ")
