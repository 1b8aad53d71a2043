"""The fenced examples in the docstrings of geometry and evidence run as printed."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest

from quadric.evidence import RowText
from quadric.geometry import dictionary_geometry, neighbours, read, redundancy, spectrum, statistics

EXAMPLE = re.compile(r"```python\n(.*?)\n *```", re.DOTALL)


@pytest.mark.parametrize(
    "documented", [dictionary_geometry, neighbours, read, redundancy, spectrum, statistics, RowText]
)
def test_examples_run(documented: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(inspect.getdoc(documented) or "")
    exec(compile(textwrap.dedent(example), "example", "exec"), {})
