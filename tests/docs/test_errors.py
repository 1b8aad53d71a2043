"""Every message that docs/errors.md quotes is one that the program can print."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `(.+?)` \|", PAGE, re.MULTILINE)


def text_of(node: ast.expr) -> str:
    """A string of the source with … for every value that is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else ""


@cache
def messages() -> str:
    """All strings of the package, one per line."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "quadric").rglob("*.py")))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return "\n".join(text_of(node) for node in nodes if isinstance(node, ast.JoinedStr | ast.Constant))


def test_the_page_has_messages() -> None:
    assert len(QUOTED) > 30


@pytest.mark.parametrize("message", QUOTED)
def test_the_message_exists(message: str) -> None:
    parts = [re.escape(part) for part in message.split("…")]
    assert re.search("…+".join(parts), messages()), f"no message in the source reads: {message}"
