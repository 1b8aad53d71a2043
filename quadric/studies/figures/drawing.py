"""Draw all figures, or selected ones by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from quadric.studies.figures.errors import draw_error_bits, draw_layers, draw_widths
from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.latents import draw_ablation, draw_captured, draw_random_latents
from quadric.studies.figures.receptive_fields import draw_receptive_fields, draw_receptive_gap
from quadric.studies.figures.similarity import draw_similarity, draw_stability
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
    "layers": draw_layers,
    "captured": draw_captured,
    "similarity": draw_similarity,
    "stability": draw_stability,
    "receptive_fields": draw_receptive_fields,
    "receptive_gap": draw_receptive_gap,
    "random_latents": draw_random_latents,
    "error_bits": draw_error_bits,
    "ablation": draw_ablation,
    "widths": draw_widths,
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
