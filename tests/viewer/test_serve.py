"""The server gives out the site's files to this machine and nothing to anyone else."""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from quadric.cli import main
from quadric.viewer import serve
from quadric.viewer.schema import SCHEMA_VERSION
from quadric.viewer.serve import CONTENT_SECURITY_POLICY, address_of, file_below, site_folder, site_server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "data").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>hello")
    (folder / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": SCHEMA_VERSION}))
    (folder / "data/00000.st").write_bytes(b"\x1f\x8b00")
    (folder / ".secret.json").write_text("{}")
    (folder / "script.py").write_text("print()")
    (tmp_path / "outside.json").write_text("{}")
    (folder / "data/link.json").symlink_to(tmp_path / "outside.json")
    return folder


@pytest.fixture
def server(site):
    with site_server(site, 0) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server, path, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_address[1]}")
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_files_come_with_their_type_and_safe_headers(server):
    answer, content = ask(server, "/")
    assert (answer.status, content) == (200, b"<!doctype html>hello")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "require-trusted-types-for 'script'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    answer, content = ask(server, "/data/00000.st?x=1#y")
    assert (answer.status, content) == (200, b"\x1f\x8b00")
    assert answer.headers["Content-Encoding"] is None


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
        "/data/link.json",
        "/.secret.json",
        "/script.py",
        "/data",
        "/data/",
        "/missing.json",
        "/data/site.json%00.html",
    ],
)
def test_nothing_but_the_sites_own_files_is_given_out(server, path):
    answer, content = ask(server, path)
    assert (answer.status, content) == (404, b"not found\n")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
def test_a_foreign_host_is_refused(server, host):
    answer, content = ask(server, "/", host=host)
    assert (answer.status, content) == (421, b"wrong Host\n")


def test_localhost_is_this_machine_too(server):
    assert ask(server, "/", host=f"localhost:{server.server_address[1]}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods_are_refused(server, method):
    assert ask(server, "/", method=method)[0].status == 501


def test_only_the_loopback_address_listens(server):
    assert server.server_address[0] == "127.0.0.1"
    assert address_of(server) == f"http://127.0.0.1:{server.server_address[1]}/"


def test_a_port_in_use_is_named_with_the_remedy(site):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="--port 0 for any free one"):
        site_server(site, taken.getsockname()[1])
    with pytest.raises(ValueError, match="port=70000 is not a port"):
        site_server(site, 70_000)


def test_a_site_is_found_in_its_run_and_a_run_without_one_is_told_how(site, tmp_path):
    assert site_folder(site) == site
    assert site_folder(tmp_path) == site
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"quadric site .*empty --out .*empty/site"):
        site_folder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no folder"):
        site_folder(tmp_path / "nowhere")


def test_a_site_of_another_schema_is_refused(site):
    (site / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": 1}))
    with pytest.raises(ValueError, match=f"schema version 1; this Quadric serves version {SCHEMA_VERSION}"):
        site_folder(site)


def test_hidden_parts_are_refused_before_the_disk_is_asked(site):
    assert file_below(site.resolve(), "/.git/config.json") is None
    assert file_below(site.resolve(), "/data/site.json") == site.resolve() / "data/site.json"


@pytest.mark.slow
def test_the_page_and_the_server_have_the_same_policy():
    assert json.loads((ROOT / "web/csp.json").read_text()) == CONTENT_SECURITY_POLICY


def test_the_command_serves_until_interrupted(site):
    command = [sys.executable, "-m", "quadric", "view", str(site), "--port", "0", "--no-open"]
    # A shell that starts its jobs in the background has them ignore SIGINT, and children inherit that.
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=hears, **pipes) as process:
        line = process.stdout.readline()
        address = line.split(" is at ")[1].split()[0]
        connection = http.client.HTTPConnection(address.split("/")[2], timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""


def test_the_command_says_in_one_line_what_is_missing(tmp_path, capsys):
    assert main(["view", str(tmp_path), "--no-open"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line


def raw(server, request):
    """The whole answer to bytes on a connection of their own, which the server must end."""
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def asking(server, line, *headers):
    port = server.server_address[1]
    return "\r\n".join([line, f"Host: 127.0.0.1:{port}", *headers, "Connection: close", "", ""]).encode("latin-1")


def test_a_file_is_sent_again_only_if_it_changed(server, site):
    answer, _ = ask(server, "/data/00000.st")
    tag = answer.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = raw(server, asking(server, "GET /data/00000.st HTTP/1.1", f"If-None-Match: {known}"))
        assert again.startswith(b"HTTP/1.1 304 ")
        assert again.endswith(b"\r\n\r\n")
    (site / "data/00000.st").write_bytes(b"changed")
    again = raw(server, asking(server, "GET /data/00000.st HTTP/1.1", f"If-None-Match: {tag}"))
    assert again.startswith(b"HTTP/1.1 200 ")
    assert again.endswith(b"changed")


@pytest.mark.parametrize(
    ("header", "status", "content"),
    [
        ("bytes=0-3", 206, b"<!do"),
        ("bytes=15-", 206, b"hello"),
        ("bytes=-5", 206, b"hello"),
        ("bytes=-500", 200, b"<!doctype html>hello"),
        ("bytes=3-900", 206, b"octype html>hello"),
        ("bytes=0-19", 200, b"<!doctype html>hello"),
        ("bytes=20-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=5-2", 200, b"<!doctype html>hello"),
        ("bytes=0-1,4-5", 200, b"<!doctype html>hello"),
        ("lines=0-1", 200, b"<!doctype html>hello"),
        ("bytes=-", 200, b"<!doctype html>hello"),
        ("bytes=" + "9" * 40 + "-", 200, b"<!doctype html>hello"),
    ],
)
def test_a_range_of_bytes(server, header, status, content):
    answer = raw(server, asking(server, "GET / HTTP/1.1", f"Range: {header}"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert body == content
    if status == 206:
        start = b"<!doctype html>hello".index(content)
        assert f"Content-Range: bytes {start}-{start + len(content) - 1}/20".encode() in head


def test_a_range_of_a_file_that_changed_meanwhile_is_the_whole_file(server):
    answer = raw(server, asking(server, "GET / HTTP/1.1", "Range: bytes=0-3", 'If-Range: "old"'))
    assert answer.endswith(b"<!doctype html>hello")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET //[ HTTP/1.1", 404),
        ("GET /%ff HTTP/1.1", 404),
        ("GET /%00 HTTP/1.1", 404),
        ("GET http://127.0.0.1/index.html HTTP/1.1", 404),
        ("GET * HTTP/1.1", 404),
        ("GET /" + "a" * 5000 + ".html HTTP/1.1", 404),
        ("GET /" + "a/" * 3000 + " HTTP/1.1", 404),
        ("GET /" + "a" * 40_000 + " HTTP/1.1", 414),
        ("GET / HTTP/9.9", 505),
        ("GET / HTTP/x", 400),
        ("GET", 400),
        ("GET / too many words HTTP/1.1", 400),
        ("OPTIONS / HTTP/1.1", 501),
        ("PRI * HTTP/2.0", 505),
    ],
)
def test_an_odd_request_is_refused_by_status(server, line, status):
    answer = raw(server, asking(server, line))
    assert int(answer.split()[1]) == status
    assert ask(server, "/")[0].status == 200


@pytest.mark.parametrize(
    "headers",
    [["X: " + "y" * 40_000], [f"X-{number}: y" for number in range(200)], ["X: " + "y" * 400] * 90],
    ids=["one long", "many", "many long"],
)
def test_headers_are_bounded(server, headers):
    assert raw(server, asking(server, "GET / HTTP/1.1", *headers)).split()[1] == b"431"


def test_two_hosts_are_refused(server):
    answer = raw(server, asking(server, "GET / HTTP/1.1", "Host: evil.example"))
    assert answer.split()[1] == b"421"


def test_a_body_is_not_taken_for_a_second_request(server):
    smuggled = f"GET /data/site.json HTTP/1.1\r\nHost: 127.0.0.1:{server.server_address[1]}\r\n\r\n"
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_address[1]}\r\nContent-Length: {len(smuggled)}\r\n\r\n"
    assert raw(server, (request + smuggled).encode()).count(b"HTTP/1.1 ") == 1


def test_head_does_not_read_the_file(server, site, monkeypatch):
    monkeypatch.setattr(serve.SiteHandler, "_copy", lambda *_: pytest.fail("read"))
    answer, content = ask(server, "/data/00000.st", method="HEAD")
    assert (answer.status, content, answer.headers["Content-Length"]) == (200, b"", "4")


def test_a_large_file_is_sent_in_pieces(server, site, monkeypatch):
    sizes = []

    class Counting(io.BufferedReader):
        def read(self, size=-1):
            sizes.append(size)
            return super().read(size)

    monkeypatch.setattr(serve, "PIECE", 1000)
    monkeypatch.setattr(serve.os, "fdopen", lambda descriptor, mode: Counting(io.FileIO(descriptor)))
    content = bytes(range(256)) * 40
    (site / "data/large.st").write_bytes(content)
    assert ask(server, "/data/large.st")[1] == content
    assert (max(sizes), len(sizes)) == (1000, 11)


def test_a_slow_request_and_an_idle_connection_are_ended(site, monkeypatch):
    monkeypatch.setattr(serve.SiteHandler, "timeout", 0.2)
    with site_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for beginning in (b"", b"GET / HTTP/1.1\r\nHost: "):
            with socket.create_connection(server.server_address[:2], timeout=20) as connection:
                connection.sendall(beginning)
                assert connection.recv(100) == b""  # the server gave up, not this client
        server.shutdown()
        thread.join()


def test_a_request_that_drips_is_ended(site, monkeypatch):
    monkeypatch.setattr(serve, "SECONDS_PER_REQUEST", 0.2)
    with site_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with socket.create_connection(server.server_address[:2], timeout=20) as connection:
            connection.settimeout(0.02)
            answer = None
            for _ in range(1000):
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(b"G")
                try:
                    answer = connection.recv(100)
                    break
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    answer = b""
                    break
            assert answer == b""
        server.shutdown()
        thread.join()


def test_connections_are_bounded_and_a_place_is_free_again(site, monkeypatch):
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 3)
    with site_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        open_connections = [socket.create_connection(server.server_address[:2], timeout=20) for _ in range(3)]
        for each in open_connections:  # each is handled once it has been answered
            each.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_address[1]}\r\n\r\n".encode())
            assert each.recv(100).startswith(b"HTTP/1.1 200")
        with socket.create_connection(server.server_address[:2], timeout=20) as one_too_many:
            assert one_too_many.recv(100).startswith(b"HTTP/1.1 503")
        for each in open_connections:
            each.close()
        server.free.acquire(timeout=20)  # released when a handler has ended
        server.free.release()
        assert ask(server, "/")[0].status == 200
        server.shutdown()
        thread.join()


def test_a_link_out_of_the_site_is_refused_even_as_a_folder(server, site, tmp_path):
    (site / "out").symlink_to(tmp_path)
    assert ask(server, "/out/outside.json")[0].status == 404
    (site / "inside.json").symlink_to(site / "data/site.json")
    assert ask(server, "/inside.json")[0].status == 200
