"""Names of packages are imported on first use, as their .pyi files say."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import quadric

ROOT = Path(quadric.__file__).parents[1]
STUBS = sorted((ROOT / "quadric").rglob("__init__.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.parent.name)
def test_every_name_of_a_stub_is_found_and_listed(stub: Path) -> None:
    package = importlib.import_module(".".join(stub.parent.relative_to(ROOT).parts))
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    names = [name.name for node in imports for name in node.names]
    assert sorted(names) == package.__all__ == dir(package)
    for name in names:
        assert getattr(package, name) is not None


def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(AttributeError, match=r"'quadric.data' has no attribute 'Cache'; it offers .*ActivationCache"):
        _ = quadric.data.Cache  # type: ignore[attr-defined]


def test_light_rooms_wait_for_no_torch() -> None:
    script = "import sys, quadric.data, quadric.evaluation, quadric.interventions; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
