"""Results that users take away: files of JSON, CSV or a picture, chosen by the ending, and HTML tables for notebooks.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, even from a CSV file. Labels and token text may
begin with any of these, so such text gets an apostrophe in front, which spreadsheets do not show. Numbers are numbers:
-0.5 stays -0.5.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quadric._io.files import write_atomically

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # the wide forms are formulas in some locales
TABLE_ENDINGS = (".csv", ".json")


def check_endings(paths: Iterable[Path], known: Iterable[str] = TABLE_ENDINGS) -> None:
    """Refuse unknown endings, folders, and endings whose package is not installed, before anything is computed."""
    for path in paths:
        if path.suffix == ".html":
            raise ValueError(
                f"'{path}': only quadric site writes HTML; open a run in the browser with quadric view, "
                f"or choose one of {', '.join(sorted(known))}"
            )
        if path.suffix not in known:
            raise ValueError(f"'{path}' ends in '{path.suffix}'; choose one of {', '.join(sorted(known))}")
        if path.is_dir():
            raise ValueError(f"'{path}' is a folder; give the name of a file")
        if path.suffix == ".png" and find_spec("matplotlib") is None:
            raise ValueError(f"'{path}' needs matplotlib; install it with: pip install 'quadric[figures]'")


def write_result(path: Path, contents: Mapping[str, Callable[[], str | bytes]]) -> None:
    """Write a file, and the folders above it, with what `contents` makes for its ending."""
    check_endings([path], contents)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = contents[path.suffix]()
    write_atomically(path, content.encode() if isinstance(content, str) else content)


def json_text(values: object, indent: int | None = None) -> str:
    """JSON with a final line break, as results are stored; numbers must be finite."""
    return json.dumps(values, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, quote_text: bool = False) -> str:
    """Rows as CSV with a header; with `quote_text`, text is always quoted and numbers never are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if quote_text else csv.QUOTE_MINIMAL)
    writer.writerow([harmless(name) for name in columns])
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def csv_of_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows given as mappings; a column that a row lacks is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text(columns, ([row.get(name) for name in columns] for row in rows))


def harmless(cell: Any) -> Any:
    """A cell that is no formula: text that would be one gets an apostrophe in front, everything else is unchanged."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """Names and values below a title."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def rows_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below named columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"
