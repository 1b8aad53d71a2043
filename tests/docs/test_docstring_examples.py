"""Every public function, and every class that users construct, says what it takes and gives, and its example runs.

Examples of docstrings that are not public run as well: there is no example in the package that nobody runs.
"""

import ast
import contextlib
import dataclasses
import doctest
import importlib
import inspect
import operator
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import fake_hub
from tests.docs.example_world import make_example_world
from tests.docs.test_reference import PUBLIC, ROOT, tool

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "quadric"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_called(found: object) -> bool:
    """Whether users call or construct this: functions, classes, and dataclasses that check their arguments.

    Others come out of functions, whose examples show them: records, errors, protocols, abstract classes, constants.
    """
    if not inspect.isclass(found):
        return inspect.isfunction(found)
    if inspect.isabstract(found) or getattr(found, "_is_protocol", False) or issubclass(found, BaseException | tuple):
        return False
    return not dataclasses.is_dataclass(found) or hasattr(found, "__post_init__")


def public() -> dict[str, Any]:
    """Every public name, under the first of its addresses."""
    found = {f"{module}.{name}": getattr(importlib.import_module(module), name) for module, name in PUBLIC}
    first = {id(value): name for name, value in reversed(found.items())}
    return {name: value for name, value in found.items() if first[id(value)] == name}


def documented(mark: str) -> Iterator[tuple[str, str]]:
    """Module and qualified name of every function, class and method of the package whose docstring has this mark."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for name, node in _definitions(ast.parse(text)) if mark in text else ():
            if mark in (ast.get_docstring(node) or ""):
                yield module, name


def _definitions(tree: ast.Module | ast.ClassDef, inside: str = "") -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield inside + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{inside}{node.name}.")


CALLED = {name: found for name, found in public().items() if is_called(found)}
FRONT_DOOR = [name for name, found in public().items() if inspect.isclass(found) and name.count(".") == 1]
FUNCTIONS = [name for name, found in CALLED.items() if inspect.isfunction(found)]
EXAMPLES = {name: found for name, found in public().items() if ">>>" in (inspect.getdoc(found) or "")}
PUBLIC_PLACES = {(found.__module__, found.__qualname__) for found in EXAMPLES.values()}
OTHERS = [place for place in documented(">>> ") if place not in PUBLIC_PLACES]


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    with working_in(folder):
        make_example_world()
    return folder


@pytest.fixture(scope="module")
def names(world: Path) -> dict[str, object]:
    """What the reference says that examples take for granted."""
    found: dict[str, object] = {}
    with working_in(world):
        exec(compile(tool.EXAMPLE_NAMES, "docs/reference/quadric.md", "exec"), found)
    return found


@pytest.fixture
def copy_of_world(world: Path, tmp_path: Path) -> Iterator[None]:
    shutil.copytree(world, tmp_path / "world")
    with working_in(tmp_path / "world"):
        yield


@pytest.fixture(scope="module")
def hub() -> Iterator[None]:
    """A hub on this machine that calls itself huggingface.co."""
    with fake_hub.running() as running, pytest.MonkeyPatch.context() as changed:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            changed.setenv(name, "")
        changed.setattr("huggingface_hub.constants.ENDPOINT", running.address)
        running.address = "https://huggingface.co"
        yield


def run(test: doctest.DocTest) -> None:
    assert not any(example.options.get(doctest.SKIP) for example in test.examples), "an example that is skipped"
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0


def test_every_example_has_prompts() -> None:
    assert list(documented("```")) == [], "write the example with >>>, so that a test runs it"


@pytest.mark.parametrize("name", sorted({*CALLED, *FRONT_DOOR}))
def test_what_users_call_has_an_example(name: str) -> None:
    assert name in EXAMPLES, f"{name} has no example; write `Example:` with >>> lines"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_says_what_it_takes_and_gives(name: str) -> None:
    text = inspect.getdoc(CALLED[name]) or ""
    arguments = inspect.signature(CALLED[name]).parameters
    assert [each for each in arguments if f"{each}:" not in text.partition("Args:")[2]] == []
    assert "Returns:" in text or "Yields:" in text


@pytest.mark.usefixtures("copy_of_world", "hub")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_public_name_prints_what_it_says(name: str, names: dict[str, object]) -> None:
    text = inspect.getdoc(EXAMPLES[name]) or ""
    run(doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0))


@pytest.mark.usefixtures("copy_of_world")
@pytest.mark.parametrize(("module", "name"), OTHERS, ids=str)
def test_every_other_example_prints_what_it_says(module: str, name: str, names: dict[str, object]) -> None:
    inside = importlib.import_module(module)
    text = inspect.getdoc(operator.attrgetter(name)(inside)) or ""
    run(doctest.DocTestParser().get_doctest(text, {**names, **vars(inside)}, name, None, 0))
