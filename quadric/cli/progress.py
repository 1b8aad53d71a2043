"""Progress of a training run: a live line on a terminal, a few plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadric.training import StepReport

PLAIN_LINES = 10


@contextmanager
def step_progress(steps: int) -> Iterator[Callable[["StepReport"], None]]:
    """A function to call after every step."""
    if not sys.stderr.isatty():
        yield lambda report: _plain(report, steps)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=steps)

        def live(report: "StepReport") -> None:
            progress.update(task, advance=1, description=f"error {report.error:.3f}  density {report.density:.3f}")

        yield live


def _plain(report: "StepReport", steps: int) -> None:
    every = max(1, steps // PLAIN_LINES)
    if (report.step + 1) % every == 0 or report.step + 1 == steps:
        print(
            f"step {report.step + 1}/{steps}  error {report.error:.3f}  density {report.density:.3f}", file=sys.stderr
        )
