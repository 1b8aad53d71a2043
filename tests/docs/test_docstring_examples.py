"""The examples in the docstrings of geometry, evidence and interventions run as printed."""

import doctest
import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch

from quadric.evidence import RowText
from quadric.geometry import dictionary_geometry, neighbours, read, redundancy, spectrum, statistics
from quadric.interventions import Combination, Intervention, Latent, nearest_steps
from quadric.interventions.motion import slide_steps

EXAMPLE = re.compile(r"```python\n(.*?)\n *```", re.DOTALL)


@pytest.mark.parametrize(
    "documented", [dictionary_geometry, neighbours, read, redundancy, spectrum, statistics, RowText]
)
def test_examples_run(documented: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(inspect.getdoc(documented) or "")
    exec(compile(textwrap.dedent(example), "example", "exec"), {})


@pytest.mark.parametrize("documented", [Combination, Intervention, Latent, nearest_steps, slide_steps])
def test_prompts_print_what_they_say(documented: type) -> None:
    names = {documented.__name__: documented, "torch": torch}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented) or "", names, documented.__name__, None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
