"""Every public function of the front door and of geometry says what it takes and gives, and its example runs."""

import doctest
import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch

import quadric
from quadric import geometry
from quadric.evidence import RowText
from quadric.interventions import Combination, Intervention, Latent, nearest_steps
from quadric.interventions.motion import slide_steps

EXAMPLE = re.compile(r"```python\n(.*?)\n *```", re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FUNCTIONS = [name for name in geometry.__all__ if inspect.isfunction(getattr(geometry, name))]
CLASSES = [name for name in quadric.__all__ if inspect.isclass(getattr(quadric, name))]


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    """What the examples take for granted."""
    x = torch.randn(500, 32, generator=torch.Generator().manual_seed(0))
    ae = quadric.fit(x, n_latents=12, steps=4, batch_tokens=128, progress=False)
    evidence = quadric.collect_evidence(ae, x, points=30, progress=False)
    return {"quadric": quadric, "torch": torch, "geometry": geometry, "ae": ae, "x": x, "evidence": evidence}


def examples(documented: object, names: dict[str, object]) -> doctest.DocTest:
    text = inspect.getdoc(documented) or ""
    own = {name: getattr(geometry, name) for name in geometry.__all__}
    title = getattr(documented, "__name__", "example")
    return doctest.DocTestParser().get_doctest(text, {**own, **names}, title, None, 0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_geometry_says_what_it_takes_and_gives(name: str) -> None:
    function = getattr(geometry, name)
    text = inspect.getdoc(function) or ""
    missing = [heading for heading in ("Args:", "Example:") if heading not in text]
    assert missing == []
    assert "Returns:" in text or "Yields:" in text
    assert [each for each in inspect.signature(function).parameters if f"{each}:" not in text] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_of_geometry_runs(
    name: str, names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(geometry, name)
    if blocks := EXAMPLE.findall(inspect.getdoc(function) or ""):
        for block in blocks:
            exec(compile(textwrap.dedent(block), name, "exec"), {})
        return
    test = examples(function, names)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0


@pytest.mark.parametrize("name", CLASSES)
def test_the_example_of_every_class_of_the_front_door_runs(
    name: str, names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    documented = getattr(quadric, name)
    test = examples(documented, {**names, name: documented})
    assert test.examples, f"quadric.{name} has no example"
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0


def test_row_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(inspect.getdoc(RowText) or "")
    exec(compile(textwrap.dedent(example), "example", "exec"), {})


@pytest.mark.parametrize("documented", [Combination, Intervention, Latent, nearest_steps, slide_steps])
def test_prompts_print_what_they_say(documented: type) -> None:
    found = {documented.__name__: documented, "torch": torch}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented) or "", found, documented.__name__, None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
