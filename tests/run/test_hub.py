"""Push and pull through huggingface_hub's own client, against a hub on loopback."""

import json
import sys

import pytest
import torch

from quadric.model import Provenance
from quadric.run.hub import model_card
from tests import fake_hub, fresh_process, zoo
from tests.interop.foreign_folders import write_sparsify

ORIGIN = {
    "model": "org/model",
    "model_revision": "abc123",
    "hook_point": "resid_pre.15",
    "tokenizer_fingerprint": "sha256:0f",
    "corpus": "text/*.jsonl",
    "corpus_revision": "sha256:1e",
}

# The client reads its endpoint and cache once, when it is imported: each call needs a process that has not done so.
SCRIPT = """
import json, sys, torch, quadric
for each in [*sys.modules]:
    if each.startswith("huggingface_hub"):
        del sys.modules[each]
from quadric.model import Provenance
from tests import zoo
action, name, origin = sys.argv[1:]
ae = zoo.make("composite sparse storage", torch.float32)
ae.provenance = Provenance(**json.loads(origin))
try:
    if action == "push":
        print(quadric.push(ae, name, token="hf_secret"))
    if action == "replace":
        print(quadric.push(zoo.make("quadratic", torch.float32), name, token="hf_secret"))
    if action == "pull":
        back = quadric.load(name)
        print(torch.equal(back.left, ae.left), back.provenance == ae.provenance)
    if action == "foreign":
        print(quadric.load(name, name="layers.3"))
except OSError as problem:
    print(f"{type(problem).__name__}: {problem}")
"""
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def run(action: str, name: str, cache, endpoint: str, offline: bool = False, **more: str) -> str:
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache),
        "HF_HUB_OFFLINE": str(int(offline)),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        **dict.fromkeys(PROXIES, ""),
        **more,
    }
    result = fresh_process.run(SCRIPT, action, name, json.dumps(ORIGIN), environment=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.slow
def test_push_then_pull_then_pull_offline(tmp_path):
    with fake_hub.running() as hub:
        address = run("push", "someone/circles", tmp_path / "one", hub.address)
        assert address.startswith(hub.address)
        files = hub.repos["someone/circles"]
        assert {"config.json", "README.md"} < files.keys()
        assert b"hf_secret" not in b"".join(files.values())
        assert run("pull", "someone/circles", tmp_path / "two", hub.address) == "True True"
    assert run("pull", "someone/circles", tmp_path / "two", "http://127.0.0.1:9", offline=True) == "True True"


@pytest.mark.slow
def test_one_folder_of_a_release_of_another_library_is_downloaded(tmp_path):
    files = {name: write_sparsify(tmp_path / name) for name in ("layers.3", "layers.6")}
    with fake_hub.running() as hub:
        hub.repos["someone/release"] = {
            f"{name}/{path.name}": path.read_bytes() for name, folder in files.items() for path in folder.iterdir()
        }
        found = run("foreign", "someone/release", tmp_path / "cache", hub.address)
        asked = {path for _, path in hub.seen if "/resolve/" in path}
    assert found == "TopKAutoencoder(d_model=12, n_latents=40, n_active=5, input='own')"
    assert any(path.endswith("layers.3/sae.safetensors") for path in asked)
    assert not any("layers.6" in path for path in asked)


@pytest.mark.slow
def test_pushing_again_replaces_the_weights(tmp_path):
    with fake_hub.running() as hub:
        run("push", "someone/circles", tmp_path, hub.address)
        before = set(hub.repos["someone/circles"])
        run("replace", "someone/circles", tmp_path, hub.address)
        after = set(hub.repos["someone/circles"])
    assert len(after) == len(before) == 3
    assert after != before


@pytest.mark.slow
def test_an_unknown_repository_is_one_clear_message(tmp_path):
    with fake_hub.running() as hub:
        message = run("pull", "someone/nothing", tmp_path, hub.address)
    assert message.startswith("ConnectionError: no local folder 'someone/nothing', and it could not be downloaded")
    assert "check the name" in message
    assert len(message.splitlines()) == 1


@pytest.mark.slow
def test_no_network_is_one_clear_message(tmp_path):
    message = run("pull", "someone/nothing", tmp_path, "http://127.0.0.1:9", offline=True)
    assert message.startswith("ConnectionError: no local folder 'someone/nothing', and it could not be downloaded")
    message = run("push", "someone/circles", tmp_path, "http://127.0.0.1:9", offline=True)
    assert message.startswith("ConnectionError: could not push to 'someone/circles'")


@pytest.mark.slow
def test_a_proxy_that_cannot_be_used_is_one_clear_message(tmp_path):
    """Without the package for SOCKS, the hub's client fails with an error of another library."""
    for action in ("push", "pull"):
        message = run(action, "someone/circles", tmp_path, "http://127.0.0.1:9", ALL_PROXY="socks5://127.0.0.1:9")
        assert message.startswith("ConnectionError: ")
        assert len(message.splitlines()) == 1


def test_model_card_states_the_provenance():
    ae = zoo.make("composite sparse storage", torch.float32)
    ae.provenance = Provenance(**ORIGIN)
    card = model_card(ae, "someone/circles")
    header, body = card.split("---\n", 2)[1:]
    assert "base_model: org/model\n" in header
    for fact in ("resid_pre.15", "sha256:0f", "composite", 'quadric.load("someone/circles")'):
        assert fact in body
    assert "hf_" not in card


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    from quadric.run.hub import download

    with pytest.raises(ValueError, match=r"pip install 'quadric\[hub\]'"):
        download("someone/circles")
