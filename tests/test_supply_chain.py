"""What is installed is pinned, hashed and licensed, and nothing that is read can run code."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "quadric").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "web").glob("*.py")])
UNPICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch.load"}


def name_of(node: ast.expr) -> str:
    """torch.load for an attribute, pickle for a name, nothing for other expressions."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def unpickling(source: str) -> list[str]:
    """Every import or call in a source that may unpickle, with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name.split(".")[0] for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0], *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Call):
            names = [name_of(node.func)]
            names += ["allow_pickle" for each in node.keywords if each.arg == "allow_pickle" and not _is_false(each)]
        bad = UNPICKLES | {"allow_pickle", "pandas.read_pickle", "pd.read_pickle", "weights_only", "eval", "exec"}
        found += [f"line {node.lineno}: {name}" for name in names if name in bad]
    return found


def _is_false(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Constant) and keyword.value.value is False


def test_no_code_unpickles() -> None:
    assert len(SOURCES) > 150
    found = {str(path): unpickling(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def pins(path: Path) -> dict[str, str]:
    """Version by normalized name."""
    found = {}
    for line in path.read_text().splitlines():
        if match := re.match(r"([\w.-]+)==(\S+)", line):
            found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def test_the_lock_holds_every_pinned_version_but_torch() -> None:
    expected = pins(ROOT / "constraints.txt")
    del expected["torch"]
    assert pins(ROOT / "requirements-dev.lock") == expected
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    for line in lines:
        assert line.startswith("#") or re.search(r" --hash=sha256:[0-9a-f]{64}$", line), line


def test_the_licence_of_every_package_is_listed() -> None:
    rows = [line.split(" | ") for line in (ROOT / "docs/licences.md").read_text().splitlines() if line.startswith("| ")]
    listed = {re.sub(r"[-_.]+", "-", row[0].removeprefix("| ")).lower() for row in rows}
    assert pins(ROOT / "constraints.txt").keys() <= listed
    assert not [row for row in rows if "not stated" in row[2]]
