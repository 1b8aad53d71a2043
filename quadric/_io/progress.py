"""A progress bar for the library's functions, shown in terminals and notebooks only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int, str], None]
"""Called with the amount done, the total, and a short text to show beside the bar."""


@contextmanager
def progress_bar(label: str, *, shown: bool = True) -> Iterator[Advance]:
    """A progress bar on stderr that disappears when the work is done.

    Nothing is shown if stderr is redirected to a file, so that logs stay readable.
    """
    from quadric._io.terminal import safe_console

    console = safe_console(stderr=True)
    if not shown or not (console.is_terminal or console.is_jupyter):
        yield lambda done, total, words: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[words]}"), console=console, transient=True) as bars:
        task = bars.add_task(label, total=None, words="")
        yield lambda done, total, words: bars.update(task, completed=done, total=total, words=words)
