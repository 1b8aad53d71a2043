"""The fenced examples in the docstrings of geometry, evidence and the table of latents run as printed."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest

import quadric
from quadric.evidence import RowText
from quadric.geometry import dictionary_geometry, neighbours, spectrum, statistics
from quadric.latent_table import latents

EXAMPLE = re.compile(r"```python\n(.*?)\n *```", re.DOTALL)


@pytest.mark.parametrize("documented", [dictionary_geometry, neighbours, spectrum, statistics, RowText, latents])
def test_examples_run(documented: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quadric, "latents", latents, raising=False)
    (example,) = EXAMPLE.findall(inspect.getdoc(documented) or "")
    exec(compile(textwrap.dedent(example), "example", "exec"), {})
