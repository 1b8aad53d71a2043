"""`quadric figures`: the paper's figures, from runs and sweeps."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.output import say

if TYPE_CHECKING:
    from quadric.studies.figures import MissingDataError


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Draw the paper's figures from runs and sweeps: each as PNG and SVG, with the numbers behind it as CSV.

    Example: quadric figures runs/layers runs/alphas --out figures
             quadric figures --only receptive_fields receptive_gap --out figures
    """

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN_OR_SWEEP ...]")] = ()
    """Folders made by quadric train or quadric sweep; some figures need none."""
    out: Path = Path("figures")
    """Folder of the figures."""
    only: tuple[
        Literal[
            "layers",
            "captured",
            "similarity",
            "stability",
            "receptive_fields",
            "receptive_gap",
            "random_latents",
            "error_bits",
            "ablation",
            "widths",
        ],
        ...,
    ] = ()
    """Figures to draw; by default all whose data is available."""

    def run(self) -> int:
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            raise ValueError("figures need matplotlib; install it with: pip install 'quadric[figures]'")
        from quadric.studies.figures import draw_figures, read_figure_data

        draw_figures(read_figure_data(self.sources), self.out, self.only, on_drawn=_say_drawn, on_missing=_say_missing)
        return 0


def _say_drawn(name: str, paths: list[Path]) -> None:
    say(f"{name}: {', '.join(str(path) for path in paths)}")


def _say_missing(name: str, problem: "MissingDataError") -> None:
    say(f"{name}: not drawn; {problem}", file=sys.stderr)
