"""The reference is complete: every public name, command and flag has its place, as the program has it now."""

import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from quadric.cli import COMMANDS

ROOT = Path(__file__).parents[2]


def load_tool(name: str) -> ModuleType:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load_tool("write_reference")
PUBLIC = [(module, name) for module in ("quadric", *(f"quadric.{room}" for room in tool.ROOMS))
          for name in tool.public_names(module)]  # fmt: skip


@pytest.mark.slow
def test_the_pages_are_what_the_script_writes() -> None:
    """In a process of its own: in pytest's, `ast.parse` has failed with "recursion depth mismatch"."""
    command = [sys.executable, "tools/write_reference.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert checked.returncode == 0, checked.stderr


def test_the_check_notices_a_page_that_is_missing_or_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    monkeypatch.setattr(tool, "pages", lambda: {"same.md": "1", "changed.md": "2", "missing.md": "3"})
    for name, text in {"same.md": "1", "changed.md": "1", "left over.md": "4"}.items():
        (tmp_path / name).write_text(text)
    assert tool.outdated() == ["changed.md", "left over.md", "missing.md"]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


def test_every_room_with_public_names_has_a_page() -> None:
    """But interop.reading, whose names users have as `quadric.linear_dictionary`, and run, whose
    only name is a module."""
    folders = [path.parent.relative_to(ROOT / "quadric") for path in (ROOT / "quadric").rglob("*/__init__.py")]
    rooms = [".".join(folder.parts) for folder in folders]
    named = {room for room in rooms if hasattr(importlib.import_module(f"quadric.{room}"), "__all__")}
    assert named - {"interop.reading", "run"} == set(tool.ROOMS)


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=".".join)
def test_every_public_name_says_what_it_is(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    if inspect.isclass(found) or inspect.isfunction(found):
        own = found.__doc__ or ""
        assert own.strip(), f"{module}.{name} has no docstring"
        assert not own.startswith(f"{name}("), f"{module}.{name} has only the docstring that a dataclass makes"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_with_all_of_its_flags(name: str) -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## quadric {name}\n")[2].partition("\n## ")[0]
    assert f"Example: quadric {name}" in section
    assert "--help" in section
