"""Draw all figures, or selected ones by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from quadric.studies.figures import (
    ablation,
    captured,
    error_bits,
    layers,
    random_latents,
    receptive_fields,
    receptive_gap,
    similarity,
    stability,
    widths,
)
from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.style import Drawn, save, styled

FigureName = Literal[
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
]

FIGURES: dict[FigureName, Callable[[FigureData], Drawn]] = {
    "layers": layers.draw,
    "captured": captured.draw,
    "similarity": similarity.draw,
    "stability": stability.draw,
    "receptive_fields": receptive_fields.draw,
    "receptive_gap": receptive_gap.draw,
    "random_latents": random_latents.draw,
    "error_bits": error_bits.draw,
    "ablation": ablation.draw,
    "widths": widths.draw,
}
assert set(FIGURES) == set(get_args(FigureName))


def draw_figures(
    data: FigureData,
    folder: Path,
    only: Sequence[FigureName] = (),
    *,
    on_drawn: Callable[[str, list[Path]], None] = lambda name, paths: None,
    on_missing: Callable[[str, MissingDataError], None] = lambda name, problem: None,
) -> list[str]:
    """Draw the figures in `only`, or every figure that has data.

    If `only` names a figure without data, `MissingDataError` is raised. Without `only`, such figures are
    reported to `on_missing` and skipped.

    Args:
        data: Result of `read_figure_data`.
        folder: Where the figures go, as PNG and SVG, with their numbers as CSV.
        only: Names of figures; all by default.
        on_drawn: Called with the name of a drawn figure and its files.
        on_missing: Called with the name of a figure that has no data, and what is missing.

    Returns:
        The names of the drawn figures.

    Example:
        >>> from quadric.studies.figures import draw_figures, read_figure_data
        >>> data = read_figure_data([Path("runs/sweep")])
        >>> draw_figures(data, Path("figures"), only=["error_bits"])
        ['error_bits']
        >>> sorted(path.name for path in Path("figures").iterdir())
        ['error_bits.csv', 'error_bits.png', 'error_bits.svg']
    """
    drawn: list[str] = []
    for name in only or FIGURES:
        try:
            with styled():
                figure = FIGURES[name](data)
        except MissingDataError as problem:
            if only:
                raise
            on_missing(name, problem)
            continue
        on_drawn(name, save(figure, folder, name))
        drawn.append(name)
    return drawn
