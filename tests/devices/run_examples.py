"""Run every example of a docstring in this process, with the dictionary `ae` on a simulated device.

`python -m tests.devices.run_examples CHARACTER REPORT WORLD`, with a folder that `make_world` filled, writes for each
example whether it prints what it says and how many operations ran on the device.
"""

import contextlib
import doctest
import importlib
import inspect
import io
import json
import operator
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.devices import simulated


def main(character: simulated.Character, report: str, world: str) -> None:
    """Run all examples."""
    os.chdir(world)
    device = simulated.install(character)
    # Imported with the accelerator in place, as by a user of it.
    from tests.docs import test_docstring_examples as examples

    names: dict[str, Any] = {}
    exec(compile(examples.tool.EXAMPLE_NAMES, "docs/reference/quadric.md", "exec"), names)
    names["ae"] = names["ae"].to(device)
    found = {}
    with _hub():
        for name, value in examples.EXAMPLES.items():
            text = inspect.getdoc(value) or ""
            found[name] = _run(name, text, dict(names), examples.OPTIONS)
        for module, name in examples.OTHERS:
            inside = importlib.import_module(module)
            text = inspect.getdoc(operator.attrgetter(name)(inside)) or ""
            found[f"{module}.{name}"] = _run(name, text, {**names, **vars(inside)}, examples.OPTIONS)
    Path(report).write_text(json.dumps(found, indent=1))


def _run(name: str, text: str, names: dict[str, Any], options: int) -> dict[str, Any]:
    from quadric.model.settings import KINDS
    from quadric.model.terms import TERMS

    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    before, out, registries = simulated.operations(), io.StringIO(), [(each, dict(each)) for each in (KINDS, TERMS)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(".", folder, dirs_exist_ok=True)
        with contextlib.chdir(folder):
            failed = doctest.DocTestRunner(optionflags=options).run(test, out=out.write).failed
    for registry, kept in registries:
        registry.clear()
        registry.update(kept)
    return {"failed": out.getvalue() if failed else "", "operations": simulated.operations() - before}


@contextlib.contextmanager
def _hub() -> Any:
    """The hub that examples take for granted."""
    import pytest

    from tests import fake_hub

    with fake_hub.running() as running, pytest.MonkeyPatch.context() as changed:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            changed.setenv(name, "")
        changed.setattr("huggingface_hub.constants.ENDPOINT", running.address)
        running.address = "https://huggingface.co"
        yield


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
