"""Run the tutorials and write their pages: docs/tutorials/NAME.py -> docs/tutorials/NAME.md and its pictures.

    python tools/run_tutorials.py [--prose] [NAME …]

A tutorial is a script in the percent format, which editors also open as a notebook: `# %% [markdown]` begins prose,
`# %%` begins code. The page shows what each cell prints, the value of its last expression, and every figure that it
leaves open. It records the hash of the code; tests/docs/test_tutorials.py fails if the code has changed since. After a
change of prose alone, --prose writes the page again with the outputs that it has.
"""

import ast
import contextlib
import hashlib
import io
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
ORDER = ("first_manifold", "your_model", "your_tensor", "reading_a_latent", "steering")
"""Names of the tutorials, in the order in which they are read; later ones use the run of the first."""


class Cell(NamedTuple):
    """A part of a tutorial."""

    is_prose: bool
    text: str


def cells(source: str) -> list[Cell]:
    """The cells of a script; what stands before the first marker is left out."""
    found: list[tuple[bool, list[str]]] = []
    for line in source.splitlines():
        if line.startswith("# %%"):
            found.append((line == "# %% [markdown]", []))
        elif found:
            prose, lines = found[-1]
            lines.append(line.removeprefix("#").removeprefix(" ") if prose else line)
    return [Cell(prose, "\n".join(lines).strip("\n")) for prose, lines in found]


def code_hash(source: str) -> str:
    """What a page records about the code of its script."""
    code = "\n\n".join(cell.text for cell in cells(source) if not cell.is_prose)
    return hashlib.sha256(code.encode()).hexdigest()


def skeleton(source: str) -> list[str]:
    """The blocks of a page that come from the script alone, in order."""
    return [cell.text if cell.is_prose else f"```python\n{cell.text}\n```" for cell in cells(source)]


def run_cell(code: str, names: dict[str, Any], where: str) -> str:
    """What a cell prints; the value of a last expression is printed too, as in a notebook."""
    tree = ast.parse(code, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None and not type(value).__module__.startswith("matplotlib"):
                print(value)
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())


def pictures(name: str, first: int) -> list[str]:
    """Save and close every open figure; their links for the page."""
    from matplotlib import pyplot

    links = []
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        file = f"images/{name}-{first + len(links)}.png"
        (FOLDER / "images").mkdir(exist_ok=True)
        figure.savefig(FOLDER / file, dpi=110, metadata={"Software": None})
        title = figure.get_suptitle() or figure.axes[0].get_title()
        links.append(f"![{title}]({file})")
    pyplot.close("all")
    return links


def page(name: str) -> str:
    """Run one tutorial, and return its page."""
    import torch

    import quadric

    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    parts, drawn, began = [], 0, time.process_time()
    for number, (cell, shown) in enumerate(zip(cells(source), skeleton(source), strict=True)):
        parts.append(shown)
        if not cell.is_prose:
            if output := run_cell(cell.text, names, f"{name}.py, cell {number}"):
                parts.append(f"```text\n{output}\n```")
            links = pictures(name, drawn)
            drawn += len(links)
            parts += links
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, quadric {quadric.__version__}"
    parts.append(f"*[The script]({name}.py), run with {versions}: {time.process_time() - began:.0f} s of CPU time.*")
    return with_header(name, source, parts)


def with_header(name: str, source: str, parts: list[str]) -> str:
    """The text of a page."""
    header = f"<!-- Made by make tutorials from {name}.py, sha256 of its code {code_hash(source)} -->\n"
    return header + "\n\n".join(parts) + "\n"


def with_new_prose(name: str, source: str, old: str) -> str:
    """The page of a script whose prose has changed and whose code has not: the outputs are those of the old page."""
    if code_hash(source) not in old:
        raise ValueError(f"the code of {name}.py has changed since it was run; run it again without --prose")
    parts, rest = [], old
    for cell, shown in zip(cells(source), skeleton(source), strict=True):
        parts.append(shown)
        if not cell.is_prose:
            rest = rest.partition(shown)[2]
            outputs = re.match(r"(?:\n\n(?:```text\n.*?\n```|!\[[^]\n]*\]\([^)\n]*\)))*", rest, re.DOTALL)
            parts += [outputs[0].strip("\n")] if outputs and outputs[0] else []
    return with_header(name, source, [*parts, old.rstrip("\n").rpartition("\n\n")[2]])


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    os.chdir(ROOT)
    for each in [name for name in sys.argv[1:] if name != "--prose"] or ORDER:
        print(f"== {each}", flush=True)
        target, script = FOLDER / f"{each}.md", FOLDER / f"{each}.py"
        if "--prose" in sys.argv[1:]:
            text = with_new_prose(each, script.read_text(encoding="utf-8"), target.read_text(encoding="utf-8"))
        else:
            text = page(each)
        target.write_text(text, encoding="utf-8")
