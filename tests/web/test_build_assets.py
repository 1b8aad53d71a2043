"""The viewer is rebuilt exactly when its sources change."""

import json
import subprocess
import sys

import pytest

from tests.web.test_typescript import WEB, build_assets


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A small copy of the sources, with assets that claim to be built from them."""
    for path in build_assets.sources():
        target = tmp_path / "web" / path.relative_to(WEB)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    monkeypatch.setattr(build_assets, "WEB", tmp_path / "web")
    monkeypatch.setattr(build_assets, "STATIC", tmp_path / "static")
    (tmp_path / "static").mkdir()
    (tmp_path / "static/build.json").write_text(json.dumps({"sources": build_assets.fingerprint()}))
    return tmp_path


def test_unchanged_sources_need_no_build(copy):
    assert build_assets.is_fresh()
    assert build_assets.ensure_built() is False


@pytest.mark.parametrize("name", ["src/app.css", "package-lock.json", "csp.json", "src/new.ts"])
def test_any_change_of_a_source_is_seen(copy, name):
    path = copy / "web" / name
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")
    assert not build_assets.is_fresh()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sources": 3}'])
def test_a_damaged_record_means_build_again(copy, content):
    (copy / "static/build.json").write_text(content)
    assert not build_assets.is_fresh()


def test_too_old_a_node_does_not_count(copy, monkeypatch):
    (copy / "bin").mkdir()
    for name, answer in (("node", "v20.1.0"), ("npm", "10")):
        (copy / "bin" / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (copy / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(copy / "bin"))
    assert not build_assets.system_node()
    (copy / "bin/node").write_text("#!/bin/sh\necho v24.0.0\n")
    assert build_assets.system_node()


def test_a_build_that_cannot_be_made_says_why(copy):
    """Without packages and without a way to fetch them, one line and exit 1."""
    script = copy / "web/build_assets.py"
    script.write_bytes((WEB / "build_assets.py").read_bytes())
    environment = {"PATH": "/nonexistent"}
    command = [sys.executable, "-S", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("the viewer could not be built: no Node 22.18 or newer; pip install")
