"""Text that is safe to print: it cannot move the cursor, ring, recolour the terminal or reverse what follows.

Token text, labels, file names and answers of servers may contain anything. Characters that a terminal would act on are
shown as their escapes, e.g. \\x1b; letters of every script and emoji stay as they are.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Control characters of ASCII and Latin-1, line and paragraph separators, marks and overrides of text direction,
# invisible tags, and halves of surrogate pairs, which no encoding can write.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
NARROWEST = 40
"""Columns; in narrower windows, tables and help pages are cut into single letters."""


def printable(text: str) -> str:
    """The text with every character that a terminal would act on shown as its escape; line ends and tabs stay."""
    return _ACTING.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    """The text as `printable` gives it, on one line."""
    return printable(" ".join(text.split("\n"))).replace("\t", " ").strip()


def printable_json(values: Any, *, indent: int | None = None, allow_nan: bool = False) -> str:
    """JSON that a terminal shows as it is and a program reads as the same values."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=allow_nan, indent=indent)
    # All of these can only be inside strings, where JSON has the same escapes.
    return _ACTING.sub(lambda match: json.dumps(match[0])[1:-1], text)


def safe_console(*, stderr: bool = False) -> "Console":
    """A rich console that shows text as it is: no markup, no emoji codes, nothing that a terminal would act on."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Any:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    console = SafeConsole(stderr=stderr, markup=False, emoji=False)
    if console.width < NARROWEST:
        console.width = NARROWEST
    return console


def number_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, n_words: int = 1, **options: Any
) -> "Table":
    """A table of numbers, right-aligned, behind `n_words` columns of words; `options` are those of `rich.table.Table`.

    No cell is broken into lines.
    """
    from rich.table import Table

    table = Table(**options)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < n_words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
