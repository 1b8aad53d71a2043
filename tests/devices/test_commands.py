"""Commands run on simulated devices and print what they print on the CPU; `MISSING` names the three that do not."""

import re
from pathlib import Path
from typing import Any

import pytest

from quadric.cli import COMMANDS
from tests.devices.processes import make_world, report_of
from tests.devices.run_commands import MISSING, TABLE
from tests.devices.simulated import CHARACTERS

pytestmark = pytest.mark.slow


def test_a_command_has_a_simulated_run_or_a_reason() -> None:
    assert COMMANDS.keys() == TABLE.keys() | MISSING.keys()
    assert not TABLE.keys() & MISSING.keys()
    assert all(MISSING.values())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module", params=CHARACTERS)
def seen(
    request: pytest.FixtureRequest, world: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    return report_of("run_commands", request.param, tmp_path_factory.mktemp("report"), world)


def without_sample(text: str) -> str:
    """Without the row of an evaluation that is of a sample: it is drawn by the bits of activations, and their last ones
    differ."""
    return re.sub(r"│ 1 │ \d\.\d+ │ ?\d\.\d+ │.*", "", text)


@pytest.mark.parametrize(("name", "number"), [(name, n) for name, runs in TABLE.items() for n in range(len(runs))])
def test_a_command_does_what_it_does_on_the_cpu(name: str, number: int, seen: dict[str, dict[str, Any]]) -> None:
    found = seen[f"{name} {number}"]
    assert found["code"] == 0, found["text"]
    assert without_sample(found["text"]) == without_sample(found["cpu"])
    assert found["operations"] > 0 or "DEVICE" not in TABLE[name][number]
