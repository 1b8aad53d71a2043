"""Tables as CSV that a spreadsheet shows and never runs.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, even from a CSV file. Labels and token text may
begin with any of these, so such text gets an apostrophe in front, which spreadsheets do not show. Numbers are numbers:
-0.5 stays -0.5.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # the wide forms are formulas in some locales


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, quote_text: bool = False) -> str:
    """Rows as CSV with a header.

    Args:
        columns: Names of the columns.
        rows: The cells of every row, in the order of the columns.
        quote_text: Whether text is always quoted, and numbers never are.
    """
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
