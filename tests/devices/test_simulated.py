"""The simulated devices refuse what REFUSALS says, each with a source, and compute everything else."""

from typing import Any

import pytest

from tests.devices.processes import report_of
from tests.devices.simulated import CHARACTERS, REFUSALS, Character

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=CHARACTERS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Character, dict[str, Any]]:
    return request.param, report_of("run_refusals", request.param, tmp_path_factory.mktemp("refusals"))


@pytest.mark.parametrize("name", REFUSALS)
def test_a_character_refuses_what_its_device_refuses(name: str, seen: tuple[Character, dict[str, Any]]) -> None:
    character, found = seen
    refusal = REFUSALS[name]
    expected = [refusal.error.__name__, refusal.message] if character in refusal.characters else None
    assert found[name] == [expected] * len(found[name])
    assert "https://" in refusal.source


def test_it_computes_everything_else(seen: tuple[Character, dict[str, Any]]) -> None:
    character, found = seen
    assert found["works"] == {
        "accelerator": "sim",
        "gradient": [[2.0, 2.0, 2.0]] * 3,
        "copied": True,
        "counted": [0, 1, 2, 3],
        "squeezed": [3],
        "number of the CPU": [3.0, 3.0, 3.0],
        "index of the CPU": [1.0, 1.0],
        "uninitialized": True,
        "meta": "meta",
        "sparse": [[[1.0], [2.0]], [2.0, 2.0, 2.0], "torch.sparse_csr"] if character == "cuda-like" else None,
    }
