"""A whole tiny run to do harm to, and a count of the cases that were tried."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from quadric.cli import main
from quadric.viewer import writer
from tests.tiny_runs import flags, make_tiny_world

# The same cases every time: a failure here must not depend on the day.
settings.register_profile(
    "faults", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
CASES = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CASES] = {}


@pytest.hookimpl(tryfirst=True)  # before the rest of the tests is marked `unit`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash.get(CASES, {})
    if counts:
        terminalreporter.section("fault cases")
        for name, count in sorted(counts.items()):
            terminalreporter.line(f"{count:6}  {name}")
        terminalreporter.line(f"{sum(counts.values()):6}  in all")


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Call it once per case."""
    counts = request.config.stash[CASES]
    name = request.path.stem.removeprefix("test_").replace("_", " ")

    def add() -> None:
        counts[name] = counts.get(name, 0) + 1

    return add


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny language model and text."""
    return make_tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A viewer of two files, which need not be built."""
    folder = tmp_path_factory.mktemp("viewer") / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets/app.js").write_text("")
    return folder


@pytest.fixture(scope="session")
def whole(world: Path, static: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cache, and a run with checkpoints, weights, evaluation, geometry, evidence and site."""
    folder = tmp_path_factory.mktemp("whole")
    run = folder / "run"
    storage = ["--tokens", "600", "--sequences-per-shard", "8", "--out", str(folder / "cache")]
    assert main(["harvest", *flags(world), "--layers", "2", *storage]) == 0
    sizes = ["--n-latents", "8", "--prior", "composite", "--atoms-per-latent", "4.8", "--steps", "4", "--epochs", "9"]
    steps = ["--sequences-per-step", "4", "--checkpoint-every", "2", "--cache", str(folder / "cache")]
    assert main(["train", *flags(world), "--layer", "2", *sizes, *steps, "--out", str(run)]) == 0
    places = ["--model", f"{world}/tiny-llama", "--corpus", f"{world}/text.txt"]
    assert main(["evaluate", str(run), "--tokens", "100", "--spliced-tokens", "0", *places, "--device", "cpu"]) == 0
    evidence = ["--cache", str(folder / "cache"), "--tokens", "200", "--points", "10", "--model", f"{world}/tiny-llama"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "STATIC", static)
        assert main(["site", str(run), *evidence, "--no-map"]) == 0
    return folder
