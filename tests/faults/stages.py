"""Every stage of the pipeline as one tiny call that can be repeated after any failure, and its result as bytes."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from quadric._io.locks import LOCK
from quadric.cli import main
from quadric.viewer import writer
from tests.evidence.fake_endpoint import Reply, Request, openai_reply, serving
from tests.tiny_runs import flags


class Places(NamedTuple):
    """What a stage reads, and the folder that it writes."""

    world: Path
    whole: Path
    """A finished run, which is copied where a stage continues one."""
    static: Path
    out: Path


def harvest(places: Places) -> int:
    storage = ["--tokens", "400", "--sequences-per-shard", "4", "--out", str(places.out)]
    return main(["harvest", *flags(places.world), "--layers", "2", *storage])


def train(places: Places) -> int:
    if (places.out / "run.json").is_file():
        return main(["train", "--resume", str(places.out)])
    sizes = ["--n-latents", "8", "--prior", "atomic", "--steps", "6", "--epochs", "9", "--sequences-per-step", "4"]
    steps = ["--checkpoint-every", "2", "--cache", str(places.whole / "cache")]
    return main(["train", *flags(places.world), "--layer", "2", *sizes, *steps, "--out", str(places.out)])


def evidence_and_site(places: Places) -> int:
    """Of a copy of a run without evidence, geometry and site."""
    given = ["--cache", str(places.whole / "cache"), "--tokens", "200", "--points", "10"]
    with pytest.MonkeyPatch.context() as patch:  # other tests of this process need the real viewer
        patch.setattr(writer, "STATIC", places.static)
        return main(["site", str(places.out), *given, "--model", f"{places.world}/tiny-llama", "--no-map"])


def label(places: Places) -> int:
    def answer(number: int, request: Request) -> Reply:
        content = request.body["messages"][0]["content"]
        return openai_reply(f'{{"label": "label {hashlib.sha256(content.encode()).hexdigest()[:8]}"}}')

    with serving(answer) as server:
        # The address of the server is stored with the labels, so it has to be the same every time.
        from quadric.evidence.endpoints import Endpoint

        post = Endpoint._request
        Endpoint._request = lambda self, prompt: _to(post(self, prompt), server.url)  # type: ignore[method-assign]
        try:
            command = ["label", str(places.out), "--model", "m", "--endpoint", "http://127.0.0.1:1/v1", "--top", "4"]
            return main([*command, "--concurrency", "1"])
        finally:
            Endpoint._request = post  # type: ignore[method-assign]


def _to(request, url):
    request.full_url = f"{url}/chat/completions"
    return request


STAGES: dict[str, Callable[[Places], int]] = {
    "harvest": harvest,
    "train": train,
    "evidence and site": evidence_and_site,
    "label": label,
}
NEEDS_RUN = ("evidence and site", "label")


def result(folder: Path) -> dict[str, str]:
    """Hash of every file by name; a lock that a killed process left is not a result, nor is the time in a file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


FILE_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir")


def on_file_events(folder: Path, act: Callable[[int], None]) -> None:
    """Call `act` with a number before every operation on files in the folder that Python's audit events tell."""
    number = 0
    inside = str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal number
        if event in FILE_EVENTS and arguments and str(arguments[0]).startswith(inside):
            number += 1
            act(number)

    sys.addaudithook(hook)
