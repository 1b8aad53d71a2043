"""The server gives out the site's files to this machine and nothing to anyone else."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from quadric.cli import main
from quadric.site.serve import CONTENT_SECURITY_POLICY, address_of, file_below, site_folder, site_server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "data").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>hello")
    (folder / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": 1}))
    (folder / "data/00000.st").write_bytes(b"\x1f\x8b00")
    (folder / ".secret.json").write_text("{}")
    (folder / "script.py").write_text("print()")
    (tmp_path / "outside.json").write_text("{}")
    (folder / "data/link.json").symlink_to(tmp_path / "outside.json")
    return folder


@pytest.fixture
def server(site):
    with site_server(site, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
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
    (site / "data/site.json").write_text(json.dumps({"format": "quadric-site", "schema_version": 2}))
    with pytest.raises(ValueError, match="schema version 2; this Quadric serves version 1"):
        site_folder(site)


def test_hidden_parts_are_refused_before_the_disk_is_asked(site):
    assert file_below(site.resolve(), "/.git/config.json") is None
    assert file_below(site.resolve(), "/data/site.json") == site.resolve() / "data/site.json"


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
