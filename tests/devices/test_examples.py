"""The example of every public name runs where there is an accelerator, with the dictionary `ae` on it."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.devices.processes import make_world, report_of
from tests.devices.simulated import CHARACTERS
from tests.docs.test_docstring_examples import EXAMPLES, OTHERS

pytestmark = pytest.mark.slow


def takes_a_dictionary(found: object) -> bool:
    """Whether a function is about one dictionary or several."""
    if not inspect.isfunction(found):
        return False
    return any("Dictionary" in str(each.annotation) for each in inspect.signature(found).parameters.values())


ON_THE_CPU: set[str] = set()
"""Functions of a dictionary whose example runs nothing on the device; the list only shrinks."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module", params=CHARACTERS)
def seen(
    request: pytest.FixtureRequest, world: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    return report_of("run_examples", request.param, tmp_path_factory.mktemp("report"), world)


def test_every_example_prints_what_it_says(seen: dict[str, dict[str, Any]]) -> None:
    assert seen.keys() == {*EXAMPLES, *(f"{module}.{name}" for module, name in OTHERS)}
    assert {name: each["failed"] for name, each in seen.items() if each["failed"]} == {}


def test_functions_of_a_dictionary_compute_on_its_device(seen: dict[str, dict[str, Any]]) -> None:
    functions = [name for name, found in EXAMPLES.items() if takes_a_dictionary(found)]
    assert {name for name in functions if not seen[name]["operations"]} == ON_THE_CPU
