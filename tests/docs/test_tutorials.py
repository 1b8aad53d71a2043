"""The pages of the tutorials belong to the scripts in the tree; `make tutorials` runs them."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_reference import load_tool

tool = load_tool("run_tutorials")
FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def page_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_every_script_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(tool.ORDER)


@pytest.mark.parametrize("name", tool.ORDER)
def test_the_page_was_made_from_this_script(name: str) -> None:
    (recorded,) = re.findall(r"sha256 of its code ([0-9a-f]{64}) -->", page_of(name))
    assert recorded == tool.code_hash(source_of(name)), f"run: python tools/run_tutorials.py {name}"


@pytest.mark.parametrize("name", tool.ORDER)
def test_the_page_shows_all_of_the_script_in_order(name: str) -> None:
    rest = page_of(name)
    for block in tool.skeleton(source_of(name)):
        _, found, rest = rest.partition(block)
        assert found, f"{name}.md does not show: {block[:80]}; run: python tools/run_tutorials.py --prose {name}"


@pytest.mark.parametrize("name", tool.ORDER)
def test_the_page_names_no_place_on_the_machine_that_made_it(name: str) -> None:
    assert not re.search(r"/(home|root|work|tmp|Users)/", page_of(name))


def test_a_cell_shows_what_it_prints_and_its_last_value() -> None:
    names: dict[str, Any] = {}
    assert tool.run_cell("a = 2\nprint('first  ')\na + 1", names, "cell") == "first\n3"
    assert tool.run_cell("b = a\nNone", names, "cell") == ""
    assert names["b"] == 2


def test_cells_are_divided_at_markers() -> None:
    script = "ignored\n# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\n# %%\nprint(x)\n"
    assert tool.skeleton(script) == ["# Title\n\nText.", "```python\nx = 1\n```", "```python\nprint(x)\n```"]


def test_new_prose_keeps_the_outputs_and_new_code_does_not() -> None:
    script = "# %% [markdown]\n# Before.\n\n# %%\nx = 1\n\n# %%\nprint(x)\n\n# %% [markdown]\n# End.\n"
    blocks = [
        "Before.",
        "```python\nx = 1\n```",
        "```python\nprint(x)\n```",
        "```text\n1\n```",
        "![a](b.png)",
        "End.",
        "*foot*",
    ]
    old = tool.with_header("t", script, blocks)
    new = tool.with_new_prose("t", script.replace("Before", "After"), old)
    assert new == old.replace("Before", "After")
    with pytest.raises(ValueError, match="has changed since it was run"):
        tool.with_new_prose("t", script.replace("x = 1", "x = 2"), old)
