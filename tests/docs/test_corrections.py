"""Every correction of docs/corrections.md names what is printed, what is right, its size, and tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "corrections.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def title(section: str) -> str:
    return section.partition("\n")[0]


def anchor(heading: str) -> str:
    """As the table of contents of Python-Markdown makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("section", SECTIONS, ids=title)
def test_every_named_test_exists(section: str) -> None:
    named = NAMED.findall(section)
    assert named, f"{title(section)} names no test"
    missing = [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)]
    assert not missing


@pytest.mark.parametrize("section", SECTIONS, ids=title)
def test_every_section_has_its_parts(section: str) -> None:
    for part in ("**Printed.**", "**Right.**", "**Size.**", "**Tests.**"):
        assert part in section


def test_the_table_links_every_section() -> None:
    linked = re.findall(r"\]\(#([\w-]+)\)", PAGE.partition("\n## ")[0])
    assert linked == [anchor(title(section)) for section in SECTIONS]


def test_named_results_and_scripts_exist() -> None:
    named = set(re.findall(r"benchmarks/[\w/.-]+\.(?:py|md)", PAGE))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
