"""The reference is complete: every public name, command and flag has its place, as the program has it now."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
    package = ROOT / "quadric"
    folders = [
        path.parent.relative_to(package) for glob in ("*", "studies/*") for path in package.glob(f"{glob}/__init__.py")
    ]
    rooms = [".".join(folder.parts) for folder in folders]
    named = {room for room in rooms if hasattr(importlib.import_module(f"quadric.{room}"), "__all__")}
    parts = {room for room in tool.ROOMS if room.startswith(("data.", "evidence."))}
    assert named | parts == set(tool.ROOMS)
