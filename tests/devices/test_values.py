"""Dictionaries on simulated devices give the CPU's results, to the bit, for rows of any device and numpy arrays."""

from pathlib import Path

import pytest

from tests.devices.processes import report_of
from tests.devices.simulated import CHARACTERS, Character

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("character", CHARACTERS)
def test_dictionaries_of_every_kind_give_the_results_of_the_cpu(character: Character, tmp_path: Path) -> None:
    found = report_of("run_values", character, tmp_path)
    assert {name: each for name, each in found.items() if each != 0} == {}
    assert len(found) >= 362
