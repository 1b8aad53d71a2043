"""Caches and runs move between devices; a device is chosen by torch, and one that is not there is named in one line."""

from pathlib import Path
from typing import Any

import pytest

from tests.devices.processes import make_world, report_of
from tests.devices.simulated import CHARACTERS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module", params=CHARACTERS)
def seen(request: pytest.FixtureRequest, world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return report_of("run_moves", request.param, tmp_path_factory.mktemp("report"), world)


def test_what_was_begun_on_one_device_continues_on_another_in_the_recorded_dtype(seen: dict[str, Any]) -> None:
    assert {name: each for name, each in seen["runs"].items() if each[0]} == {}
    assert seen["dtypes"] == ["float32", "float32", "bfloat16"]


def test_the_accelerator_of_torch_is_chosen(seen: dict[str, Any]) -> None:
    assert seen["devices"] == {"auto": "sim:0", "sim": "sim:0", "sim:0": "sim:0", "cpu": "cpu"}
    for name in ("sim:3", "meta", "cuda", "warp"):
        assert seen["errors"][name] == f"no device '{name}' here; give auto or sim, cpu"
