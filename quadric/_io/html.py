"""Small HTML tables, for objects that a notebook shows at the end of a cell."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """Names and values below a title."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def rows_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below named columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"
