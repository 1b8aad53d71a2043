"""A refactor must not change what training computes: seeded losses of every kind of dictionary, compared to the bit."""

import json
import subprocess
import sys

import pytest

from tests.train.seeded_losses import RECORDED, RUNS

TOLERANCE_ELSEWHERE = 1e-3
"""Sixteen steps of Muon amplify another machine's rounding; a change of the algorithm is larger than this."""


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    command = [sys.executable, "-m", "tests.train.seeded_losses"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("name", RUNS)
def test_seeded_losses_are_the_recorded_ones(name: str, found: dict) -> None:
    recorded = json.loads(RECORDED.read_text())
    ours, theirs = found["losses"][name], recorded["losses"][name]
    assert len(ours) == len(theirs)
    if found["arithmetic"] == recorded["arithmetic"]:
        assert ours == theirs
    for (error, density), (error_before, density_before) in zip(ours, theirs, strict=True):
        assert float.fromhex(error) == pytest.approx(float.fromhex(error_before), rel=TOLERANCE_ELSEWHERE)
        assert float.fromhex(density) == pytest.approx(float.fromhex(density_before), rel=TOLERANCE_ELSEWHERE)
