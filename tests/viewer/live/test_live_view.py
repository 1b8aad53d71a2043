"""`quadric view --live` from the outside: what it answers for, and that it ends within a second."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import quadric
from quadric.evidence import Evidence
from quadric.explanations import Explainer
from quadric.run import viewing
from quadric.run.viewing import view
from quadric.viewer.live.api import Api
from quadric.viewer.live.session import Session
from quadric.viewer.live.worker import BusyError
from quadric.viewer.serve import SiteServer
from tests.data.tiny import tiny_causal, tiny_tokenizer
from tests.explanations.small_run import NAME
from tests.viewer.live.client import answer_of


def test_closing_ends_a_running_request_within_a_second(live_run: Path, live_explainer: Explainer) -> None:
    session = Session({NAME: live_explainer})
    session.methods["explain"] = lambda request, job: [time.sleep(0.01) or job.check() for _ in range(10_000)]
    api = Api(session)
    server = SiteServer(live_run / "site", 0, api)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/api/explain", "{}", {"Content-Type": "application/json"})
    while api.worker.current is None:
        time.sleep(0.01)
    start = time.monotonic()
    server.close()
    assert time.monotonic() - start < 20  # the work alone would take a hundred seconds
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_a_port_in_use_ends_the_model_s_thread_too(live_run: Path, live_explainer: Explainer) -> None:
    api = Api(Session({NAME: live_explainer}))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="--port 0 for any free one"):
        SiteServer(live_run / "site", taken.getsockname()[1], api)
    with pytest.raises(BusyError, match="stopping"):
        api.worker.submit(lambda job: None)


def test_view_serves_a_run_and_its_site(live_run: Path) -> None:
    model = str(live_run.parent / "tiny")
    options = {"port": 0, "open_browser": False, "wait": False, "live": True}
    for target in (live_run, live_run / "site"):
        with view(target, model=model, device="cpu", **options) as viewer:
            port = int(viewer.address.split(":")[2].strip("/"))
            assert answer_of(port, "explain", {"dictionary": NAME, "text": "word"})["tokens"]


def test_an_autoencoder_in_memory_can_be_asked_too(live_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.viewer.dictionaries.umap_layout", lambda neighbours, seed: None)
    ae = quadric.load(live_run)
    evidence = Evidence.load(live_run / "evidence" / NAME)
    ae.provenance = replace(ae.provenance, model_revision=None)
    memory = {"model": tiny_causal(), "tokenizer": tiny_tokenizer()}
    with view(ae, evidence, port=0, open_browser=False, wait=False, live=True, **memory) as viewer:
        port = int(viewer.address.split(":")[2].strip("/"))
        assert answer_of(port, "explain", {"dictionary": "latents", "text": "word"})["tokens"]


def test_what_cannot_be_live_is_said(live_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"port": 0, "open_browser": False, "wait": False}
    with pytest.raises(ValueError, match="model= and tokenizer= are for a live viewer"):
        view(live_run, model="smollm2", **options)
    lonely = tmp_path / "elsewhere" / "site"
    lonely.parent.mkdir()
    lonely.symlink_to(live_run / "site")
    monkeypatch.setattr(viewing, "autoencoder_folders", lambda folder: {})
    with pytest.raises(ValueError, match="is a site without its run"):
        view(lonely, live=True, **options)


@pytest.mark.slow
def test_ctrl_c_ends_the_command_while_the_model_works(live_run: Path) -> None:
    command = [sys.executable, "-m", "quadric", "view", str(live_run), "--live", "--no-open", "--port", "0"]
    command += ["--model", str(live_run.parent / "tiny"), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell starts background jobs with SIGINT ignored, and children inherit that; this one must hear it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(line.split("127.0.0.1:")[1].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked = {"dictionary": NAME, "text": "word " * 50, "latent": 1, "kind": "ablate", "tokens": 40}
    connection.request("POST", "/api/steer", json.dumps(asked), {"Content-Type": "application/json"})
    time.sleep(0.05)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    while _listens(port):
        assert time.monotonic() - start < 20
        time.sleep(0.01)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in errors
    connection.close()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
