"""Write docs/reference/: the API pages, which mkdocstrings fills from docstrings, and the help of every command.

    python tools/write_reference.py [--check]

With --check nothing is written; the exit code is 1 if a page in the tree is not what this script would write.
"""

import contextlib
import importlib
import inspect
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import quadric
from quadric.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
GENERATED = "<!-- Written by tools/write_reference.py; do not edit. -->\n"
COLUMNS = "100"
"""Width of the help pages."""
ROOMS = (
    "data.corpus", "data", "model", "train", "evaluation", "geometry", "evidence", "evidence.concepts", "explanations",
    "interventions", "studies.steering", "studies.probing", "studies.sweep", "studies.figures",
)  # fmt: skip
"""Rooms that have public names of their own, in the order in which data flows through them."""
EXAMPLE_NAMES = """\
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import quadric
from quadric import geometry

model = AutoModelForCausalLM.from_pretrained("my-model")
tokenizer = AutoTokenizer.from_pretrained("my-model")
acts = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=2000)
x = acts.vectors
ae = quadric.load("runs/demo")
evidence = quadric.collect_evidence(ae, acts, points=200)
"""
"""What examples take for granted; tests/docs/test_docstring_examples.py runs these lines first."""
FRONT_DOOR = f"""\
# The package `quadric`

These are the names of `import quadric`. Most work needs no others. [Stability](../stability.md) says what may change.

A test runs every example of the reference, each after these lines. They take a language model from a folder, read its
activations, and load a dictionary that `quadric train` has made of them. In the test the model is tiny (four layers of
width 32, random weights, one token per byte), so examples show how to call a function and not what to expect of it.

```python
{EXAMPLE_NAMES}```
"""
EXAMPLES = "The examples take [a few names](quadric.md) for granted, such as the dictionary `ae`."
COMMAND_LINE = """\
# Command line

The help of every command, as `quadric COMMAND --help-all` prints it; `--help` shows the flags of `train`, `sweep` and
`plan` that people use first. Every command exits with 0 for success, 1 for a
mistake in what was asked for (one line on standard error says which), and 2 for flags that it does not understand.
`QUADRIC_DEBUG=1` shows the traceback of an error.
"""


def public_names(module: str) -> list[str]:
    """The names in a module's `__all__` that are its own, functions first: neither modules nor dunder names."""
    loaded = importlib.import_module(module)
    names = [
        name for name in loaded.__all__ if not inspect.ismodule(getattr(loaded, name)) and not name.startswith("__")
    ]
    return sorted(names, key=lambda name: not inspect.isfunction(getattr(loaded, name)))


def front_door_page() -> str:
    """The page of the names of `quadric`."""
    names = public_names("quadric")
    return GENERATED + FRONT_DOOR + "".join(f"\n::: quadric.{name}\n" for name in names)


def room_page(room: str) -> str:
    """The page of one room: its own docstring, then its public names."""
    names = "".join(f"\n::: quadric.{room}.{name}\n" for name in public_names(f"quadric.{room}"))
    summary = (importlib.import_module(f"quadric.{room}").__doc__ or "").partition("\n")[0]
    return f"{GENERATED}# quadric.{room}\n\n{summary}\n\n{EXAMPLES}\n{names}"


def help_of(*arguments: str) -> str:
    """What a command prints for --help-all, at a fixed width and without colours."""
    printed = io.StringIO()
    with _plain_terminal(), contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*arguments, "--help-all"])
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def command_line_page() -> str:
    """The page with the help of every command."""
    parts = [GENERATED + COMMAND_LINE, f"\n```text\n{help_of()}\n```\n"]
    parts += [f"\n## quadric {name}\n\n```text\n{help_of(name)}\n```\n" for name in COMMANDS]
    return "".join(parts)


def pages() -> dict[str, str]:
    """The text of every generated page by its file name."""
    rooms = {f"{room.replace('.', '-')}.md": room_page(room) for room in ROOMS}
    return {"quadric.md": front_door_page(), **rooms, "command-line.md": command_line_page()}


@contextlib.contextmanager
def _plain_terminal() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(COLUMNS=COLUMNS, NO_COLOR="1", TERM="dumb")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def outdated() -> list[str]:
    """File names of pages that are missing, no longer made, or different from what would be written."""
    stored = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    written = pages()
    return sorted(name for name in {*stored, *written} if stored.get(name) != written.get(name))


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if found := outdated():
            sys.exit(f"{', '.join(found)}: not as the program is now; run: python tools/write_reference.py")
        sys.exit()
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"wrote docs/reference (quadric {quadric.__version__})")
