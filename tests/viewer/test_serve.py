"""The server gives out the site's files to this machine and nothing to anyone else, and no client can hold it up."""

import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from quadric.cli import main
from quadric.viewer import serve
from quadric.viewer.schema import SCHEMA_VERSION
from quadric.viewer.serve import CONTENT_SECURITY_POLICY, LIVE_MARK, SiteServer, file_below, site_folder

ROOT = Path(__file__).parents[2]


class StandInApi:
    """An API without a language model; tests/viewer/live has the real one."""

    def routes(self):
        return [Route("/api/status", lambda request: JSONResponse({}), methods=["GET"])]

    def close(self):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    folder = run / "site"
    (folder / "data").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>hello")
    (folder / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": SCHEMA_VERSION}))
    (folder / "data/00000.st").write_bytes(b"\x1f\x8b00")
    (folder / ".secret.json").write_text("{}")
    (folder / "script.py").write_text("print()")
    (run / "outside.json").write_text("{}")
    (folder / "data/link.json").symlink_to(run / "outside.json")
    return folder


@pytest.fixture(autouse=True)
def nothing_printed(caplog, capfd):
    """Whatever clients do, the terminal of `quadric view` stays as it is."""
    yield
    assert [record for record in caplog.get_records("call") if record.name.startswith(("asyncio", "uvicorn"))] == []
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture(scope="module")
def server(site):
    with closing(SiteServer(site, 0)) as running:
        yield running


@pytest.fixture(scope="module", params=["static", "live"])
def either(request, site):
    with closing(SiteServer(site, 0, StandInApi() if request.param == "live" else None)) as running:
        yield running


def ask(server, path, method="GET", host=None, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_files_come_with_their_type_and_safe_headers(server):
    answer, content = ask(server, "/")
    assert (answer.status, content) == (200, b"<!doctype html>hello")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    answer, content = ask(server, "/data/00000.st?x=1#y")
    assert (answer.status, content) == (200, b"\x1f\x8b00")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Encoding"] is None


def test_a_live_page_is_that_of_the_package_and_says_that_it_is_live(site, tmp_path, monkeypatch):
    monkeypatch.setattr(serve.writer, "STATIC", tmp_path / "static")
    (tmp_path / "static/assets").mkdir(parents=True)
    (tmp_path / "static/index.html").write_bytes(b"<head></head>new")
    (tmp_path / "static/assets/app.js").write_text("new")
    with closing(SiteServer(site, 0, StandInApi())) as live:
        for path in ("/", "/index.html"):
            assert ask(live, path)[1] == b"<head>" + LIVE_MARK + b"</head>new"
        assert ask(live, "/assets/app.js")[1] == b"new"
        assert ask(live, "/data/00000.st")[1] == b"\x1f\x8b00"
        assert ask(live, "/api/status")[1] == b"{}"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/missing", 404), ("/api/status", 404), ("/\N{LATIN SMALL LETTER A WITH ACUTE}", 400)],
)
def test_every_answer_has_the_safe_headers(server, path, status):
    answer = raw(server, asking(server, f"GET {path} HTTP/1.1")).decode()
    assert int(answer.split()[1]) == status
    found = {name.lower(): value for name, value in re.findall(r"([\w-]+): ([^\r]*)\r\n", answer)}
    assert found["x-content-type-options"] == "nosniff"
    assert found["x-frame-options"] == "DENY"
    assert "require-trusted-types-for 'script'" in found["content-security-policy"]
    assert "frame-ancestors 'none'" in found["content-security-policy"]
    assert "server" not in found


def test_head_sends_the_headers_alone(server):
    answer, content = ask(server, "/", method="HEAD")
    assert (answer.status, content, answer.headers["Content-Length"]) == (200, b"", "20")


@pytest.mark.parametrize(
    "path",
    [
        "/../outside.json",
        "/data/../../outside.json",
        "/%2e%2e/outside.json",
        "/data/%2e%2e%2f%2e%2e%2foutside.json",
        "/..%5coutside.json",
        "//etc/passwd",
        "/assets/../../outside.json",
        "/data/link.json",
        "/.secret.json",
        "/script.py",
        "/data",
        "/data/",
        "/missing.json",
        "/data/site.json%00.html",
        "/" + "a" * 5000 + ".html",
        "/" + "a/" * 3000,
        "//[",
        "/%ff",
    ],
)
def test_nothing_but_the_sites_own_files_is_given_out(either, path):
    answer, content = ask(either, path)
    assert (answer.status, content) == (404, b"not found\n")


def test_a_link_out_of_the_site_is_refused_even_as_a_folder(server, site):
    (site / "out").symlink_to(site.parent)
    assert ask(server, "/out/outside.json")[0].status == 404
    (site / "inside.json").symlink_to(site / "data/site.json")
    assert ask(server, "/inside.json")[0].status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/", "/api/status"])
def test_a_foreign_host_is_refused(either, path, host):
    answer, content = ask(either, path, host=host)
    assert (answer.status, content) == (421, b"wrong Host\n")


def test_localhost_is_this_machine_too(either):
    assert ask(either, "/", host=f"localhost:{either.port}")[0].status == 200


@pytest.mark.parametrize(
    "header", [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
)
def test_foreign_pages_reach_no_api(either, header):
    assert ask(either, "/api/status", headers=[header])[0].status == 403
    assert ask(either, "/data/site.json", headers=[header])[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(either, method):
    assert ask(either, "/", method=method)[0].status == 405


def test_only_the_loopback_address_listens(server):
    assert server._socket.getsockname() == ("127.0.0.1", server.port)
    assert server.address == f"http://127.0.0.1:{server.port}/"


def test_a_port_in_use_is_named_with_the_remedy(site):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="--port 0 for any free one"):
        SiteServer(site, taken.getsockname()[1])
    with pytest.raises(ValueError, match="port=70000 is not a port"):
        SiteServer(site, 70_000)


def test_a_site_is_found_in_its_run_and_a_run_without_one_is_told_how(site, tmp_path):
    assert site_folder(site) == site
    assert site_folder(site.parent) == site
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"quadric site .*empty --out .*empty/site"):
        site_folder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no folder"):
        site_folder(tmp_path / "nowhere")


def test_a_site_of_another_schema_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": 1}))
    with pytest.raises(ValueError, match=f"schema version 1; this Quadric serves version {SCHEMA_VERSION}"):
        site_folder(tmp_path)


def test_hidden_parts_are_refused_before_the_disk_is_asked(site):
    assert file_below(site.resolve(), "/.git/config.json") is None
    assert file_below(site.resolve(), "/data/site.json") == site.resolve() / "data/site.json"


@pytest.mark.slow
def test_the_page_and_the_server_have_the_same_policy():
    assert json.loads((ROOT / "web/csp.json").read_text()) == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("when", ["printed", "answering"])
def test_the_command_serves_until_interrupted(site, when):
    """Also while an answer is being sent, and at the moment when the address appears."""
    (site / "data/large.st").write_bytes(bytes(20_000_000))
    command = [sys.executable, "-m", "quadric", "view", str(site), "--port", "0", "--no-open"]
    # A shell that starts its jobs in the background has them ignore SIGINT, and children inherit that.
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=hears, **pipes) as process:
        address = process.stdout.readline().split(" is at ")[1].split()[0]
        connection = http.client.HTTPConnection(address.split("/")[2], timeout=10)
        if when == "answering":
            connection.request("GET", "/data/large.st")
            assert connection.getresponse().status == 200
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""
        connection.close()


def test_the_command_says_in_one_line_what_is_missing(tmp_path, capfd):
    assert main(["view", str(tmp_path), "--no-open"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert str(tmp_path) in line


def raw(server, request):
    """The whole answer to bytes on a connection of their own, which the server must end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def asking(server, line, *headers):
    return "\r\n".join([line, f"Host: 127.0.0.1:{server.port}", *headers, "Connection: close", "", ""]).encode(
        "latin-1"
    )


def test_a_file_is_sent_again_only_if_it_changed(either, site):
    (site / "data/00001.st").write_bytes(b"written")
    answer, _ = ask(either, "/data/00001.st")
    tag = answer.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer, content = ask(either, "/data/00001.st", headers=[("If-None-Match", known)])
        assert (answer.status, content) == (304, b"")
    (site / "data/00001.st").write_bytes(b"changed")
    answer, content = ask(either, "/data/00001.st", headers=[("If-None-Match", tag)])
    assert (answer.status, content) == (200, b"changed")


@pytest.mark.parametrize(
    ("headers", "status", "content"),
    [
        ([("Range", "bytes=0-3")], 206, b"<!do"),
        ([("Range", "bytes=15-")], 206, b"hello"),
        ([("Range", "bytes=-5")], 206, b"hello"),
        ([("Range", "bytes=20-")], 416, b""),
        ([("Range", "bytes=0-3"), ("If-Range", '"old"')], 200, b"<!doctype html>hello"),
    ],
)
def test_a_range_of_bytes(server, headers, status, content):
    answer, found = ask(server, "/", headers=headers)
    assert (answer.status, found) == (status, content)
    if status == 206:
        start = b"<!doctype html>hello".index(content)
        assert answer.headers["Content-Range"] == f"bytes {start}-{start + len(content) - 1}/20"


def test_a_large_file_arrives_whole(server, site):
    content = bytes(range(256)) * 4000
    (site / "data/large.st").write_bytes(content)
    assert ask(server, "/data/large.st")[1] == content


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET http://127.0.0.1/index.html HTTP/1.1", 404),
        ("GET * HTTP/1.1", 404),
        ("GET / HTTP/x", 400),
        ("GET", 400),
        ("GET / too many words HTTP/1.1", 400),
        ("POST /api/explain HTTP/1.1", 405),
    ],
)
def test_an_odd_request_is_refused_by_status(server, line, status):
    assert int(raw(server, asking(server, line)).split()[1]) == status
    assert ask(server, "/")[0].status == 200


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("GET /" + "a" * 40_000 + " HTTP/1.1", []),
        ("GET / HTTP/1.1", ["X: " + "y" * 40_000]),
        ("GET / HTTP/1.1", ["X: " + "y" * 400] * 90),
        ("GET / HTTP/1.1", ["X: " + "y" * 400] * 9000),
    ],
    ids=["target", "one long", "many", "far too many"],
)
def test_the_head_of_a_request_is_bounded(either, line, headers):
    with suppress(BrokenPipeError, ConnectionResetError):  # it hangs up before all is sent
        assert raw(either, asking(either, line, *headers)).split()[1:2] in ([b"431"], [b"400"])
    assert ask(either, "/")[0].status == 200


def test_two_hosts_are_refused(server):
    assert raw(server, asking(server, "GET / HTTP/1.1", "Host: evil.example")).split()[1] == b"400"


def test_a_body_is_not_taken_for_a_second_request(server):
    smuggled = asking(server, "GET /data/site.json HTTP/1.1")
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(smuggled)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request + smuggled + asking(server, "HEAD / HTTP/1.1"))
        found = b"".join(iter(lambda: connection.recv(65536), b""))
    assert (found.count(b"HTTP/1.1 200"), found.count(b"quadric-site")) == (2, 0)


@pytest.mark.parametrize("at_a_time", ["nothing", "a start", "one byte after the other"])
def test_unfinished_requests_are_ended_and_others_served_meanwhile(either, monkeypatch, at_a_time):
    """A timer that every byte restarts would never end the last of these."""
    monkeypatch.setattr(serve, "SECONDS_PER_REQUEST", 0.5)
    monkeypatch.setattr(serve, "SECONDS_IDLE", 0.5)
    waiting = [socket.create_connection(("127.0.0.1", either.port), timeout=20) for _ in range(20)]
    start = time.monotonic()
    for connection in waiting:
        connection.sendall(b"" if at_a_time == "nothing" else b"GET / HTTP/1.1\r\nHost: ")
    assert ask(either, "/")[0].status == 200
    assert time.monotonic() - start < 0.5
    for connection in waiting:
        while at_a_time == "one byte after the other" and not is_ended(connection, 0.02):
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"a")
        assert is_ended(connection, 20)
        connection.close()
    assert 0.4 < time.monotonic() - start < 10
    assert ask(either, "/")[0].status == 200


def test_more_unfinished_requests_than_connections_do_not_shut_others_out_for_good(either, monkeypatch):
    monkeypatch.setattr(serve, "SECONDS_PER_REQUEST", 0.5)
    waiting = []
    for _ in range(260):
        connection = socket.create_connection(("127.0.0.1", either.port), timeout=20)
        with suppress(BrokenPipeError, ConnectionResetError):  # one too many
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        waiting.append(connection)
    for connection in waiting:
        with suppress(ConnectionResetError):
            while connection.recv(1000):  # a refusal, where there was one too many
                pass
        connection.close()
    assert ask(either, "/")[0].status == 200


def is_ended(connection, seconds):
    """Whether the server hangs up within some time."""
    connection.settimeout(seconds)
    try:
        return connection.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_body_that_drips_is_ended(server, monkeypatch):
    monkeypatch.setattr(serve, "SECONDS_PER_REQUEST", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(asking(server, "GET / HTTP/1.1", "Content-Length: 100000")[:-2] + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        for _ in range(1000):
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"x")
            if is_ended(connection, 0.02):
                return
        pytest.fail("the connection is still open")


def test_a_client_that_reads_nothing_is_ended(server, site, monkeypatch):
    """Its answer would otherwise be kept for ever, with its file open."""
    monkeypatch.setattr(serve, "SECONDS_IDLE", 0.3)
    (site / "data/large.st").write_bytes(bytes(50_000_000))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(asking(server, "GET /data/large.st HTTP/1.1"))
        time.sleep(1)
        size = 0
        with suppress(ConnectionResetError):
            while piece := connection.recv(1 << 20):
                size += len(piece)
        assert 0 < size < 50_000_000


def test_a_client_that_hangs_up_leaves_no_trace(server, site, caplog):
    (site / "data/large.st").write_bytes(bytes(20_000_000))
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                connection.sendall(asking(server, "GET /data/large.st HTTP/1.1"))
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert ask(server, "/")[0].status == 200
        assert caplog.records == []


def test_connections_are_bounded_and_a_place_is_free_again(server, monkeypatch):
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 3)
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(3)]
    for connection in connections:  # each is handled once it has been answered
        connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one_too_many:
        assert one_too_many.recv(100).startswith(b"HTTP/1.1 503")
    for connection in connections:
        connection.close()
    for _ in range(100):
        with suppress(ConnectionResetError):
            if ask(server, "/")[0].status == 200:
                return
        time.sleep(0.05)
    pytest.fail("no place became free")


def test_a_file_that_shrinks_while_it_is_sent_is_not_taken_for_whole(server, site, monkeypatch):
    (site / "data/large.st").write_bytes(bytes(20_000_000))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(asking(server, "GET /data/large.st HTTP/1.1"))
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        os.truncate(site / "data/large.st", 1000)
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            answer.read()
