"""Run the tutorials and write their pages: docs/tutorials/NAME.py -> docs/tutorials/NAME.md and its pictures.

    python tools/run_tutorials.py [NAME …]

A tutorial is a script in the percent format, which editors also open as a notebook: `# %% [markdown]` begins prose,
`# %%` begins code. The page shows what each cell prints, the value of its last expression, and every figure that it
leaves open. It records the hash of the script; tests/docs/test_tutorials.py fails if the script has changed since.
"""

import ast
import contextlib
import hashlib
import io
import os
import platform
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


def source_hash(source: str) -> str:
    """What a page records about its script."""
    return hashlib.sha256(source.encode()).hexdigest()


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
    return f"<!-- Made by make tutorials from {name}.py, sha256 {source_hash(source)} -->\n" + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    os.chdir(ROOT)
    for each in sys.argv[1:] or ORDER:
        print(f"== {each}", flush=True)
        (FOLDER / f"{each}.md").write_text(page(each), encoding="utf-8")
