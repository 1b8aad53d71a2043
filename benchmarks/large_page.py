"""Page of `make reproduce-large`: the paper's claims at its own proportions, from the cells that are finished.

Every sentence is made from measured numbers; cells and comparisons that are missing are named.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from large_cells import (
    CURVE_TOKENS,
    LINEAR,
    Settings,
    convergence,
    flatness,
    name_of,
    only_cell,
    order_at_equal_steps,
)
from large_measured import (
    AGREEMENTS,
    PRIORS,
    RANDOM,
    Finished,
    error_with_interval,
    is_unpenalized,
    lacks_penalty,
    read_finished,
)
from paper_claims import NOT_YET, figure_lines, machine, save_as_svg, spread

from quadric._io.files import write_atomically
from quadric._io.results import csv_of_rows
from quadric.evaluation.measures import ACTIVE_TOKENS
from quadric.run.config import RunConfig
from quadric.studies.figures.errors import at_one_layer, crossings, draw_widths, over_width
from quadric.studies.figures.figure_data import FigureData, MissingDataError, all_series
from quadric.studies.figures.style import AFFINE_LOOKS, LOOKS, Drawn, Look, panels, styled
from quadric.studies.sweep.rows import Row, alpha_of

COLUMNS = (
    "k", "kind", "lens", "α", "seed", "error", "constant", "linear", "quadratic", "active", "error of 32",
    "captured 1/3/5", "dense", "distinct", "linear R²",
)  # fmt: skip
PRIMER = f"""\
Errors are ‖X̂ − xxᵀ‖²/‖xxᵀ‖² on held-out documents, with 95 % intervals over sequences. The blocks are those about
the mean token: constant α²mmᵀ, linear α(myᵀ + ymᵀ), quadratic yyᵀ. *Active* is the smallest of 1, 2, 4, … latents per
token that come within 10 % of the error of all; *error of 32* keeps the 32 largest |z| of every token. Both are
measured on the first {ACTIVE_TOKENS:,} held-out tokens, so for TopK *error of 32* differs a little from the error on
all of them. *Linear R²* is the median share of a latent's variance that the best linear function of the unit token
explains, fitted on one half of the held-out tokens and measured on the other; in brackets, how many latents have more
than {LINEAR:.0%}. The floor bounds the three priors with the paper's lens only: TopK is not linear in xxᵀ, and an
affine lens has a constant that xxᵀ has not."""
ALPHA_MARKERS = {0.0: "v", 0.1: "<", 1.0: ">"}
"""Of the composite cells at other weights of the density penalty than the paper's."""
NO_PENALTY = ", no penalty on the mean"


def ordering(found: Finished) -> str:
    """Errors of the priors in order: of the main cells, and at the largest k where all three are finished."""
    main = found.settings.n_latents
    wide = [k for k in found.settings.widths if all(found.cell(prior, k) for prior in PRIORS)]
    largest = [k for k in wide[-1:] if k != main]
    said = [_order_at(found, k) for k in (main, *largest)]
    return ". ".join(each for each in said if each) or NOT_YET


def _order_at(found: Finished, n_latents: int) -> str:
    rows = {prior: row for prior in PRIORS if (row := found.cell(prior, n_latents)) is not None}
    if len(rows) < 2:
        return ""
    missing = [prior for prior in PRIORS if prior not in rows]
    whole, block = (" < ".join(_sorted_by(rows, column)) for column in ("error", "error_quadratic"))
    gap = f" ({', '.join(missing)} not measured yet)" if missing else ""
    return f"k = {n_latents:,}: {whole}{gap}; in the quadratic block {block}"


def _sorted_by(rows: dict[str, Row], column: str) -> list[str]:
    return [f"{prior} {rows[prior][column]:.4f}" for prior in sorted(rows, key=lambda prior: rows[prior][column])]


def against_topk(found: Finished) -> str:
    """Each prior and the default against TopK, whole, by block, and with as few latents per token."""
    measured = found.bilinear
    if found.topk is None or not measured:
        return NOT_YET
    better = [name for name, row in measured.items() if row["error"] < found.topk["error"]]
    worse = [name for name in measured if name not in better]
    lower, higher = (", ".join(names) or "none" for names in (better, worse))
    said = [f"TopK {error_with_interval(found.topk)}; lower: {lower}; higher: {higher}"]
    columns = {f"{block.capitalize()} block": f"error_{block}" for block in ("constant", "linear", "quadratic")}
    for words, column in (columns | {"With the 32 largest latents of every token": "error_of_32_active"}).items():
        if found.topk[column] is None or any(row[column] is None for row in measured.values()):
            continue
        values = ", ".join(f"{name} {row[column]:.3f}" for name, row in {"TopK": found.topk, **measured}.items())
        said.append(f"{words}: {values}")
    return ". ".join(said)


def low_rank(found: Finished) -> str:
    """Median share captured by 1, 3 and 5 eigenvalues."""
    rows = {"composite": found.main("composite"), "quadratic": found.main("quadratic"), "default": found.default}
    said = [
        f"{name}: {row['captured_1']:.0%} by 1, {row['captured_3']:.0%} by 3, {row['captured_5']:.0%} by 5"
        for name, row in rows.items()
        if row is not None
    ]
    return "; ".join(said) or NOT_YET


def dense(found: Finished) -> str:
    """Shares of dense, dead and distinct latents."""
    said = [
        f"{name}: {row['dense_share']:.1%} dense, {row['dead_share']:.1%} dead, {row['n_distinct']:,} of "
        f"{row['n_latents']:,} distinct ({row['n_empty']:,} empty, {row['n_copies']:,} copies)"
        for name, row in found.bilinear.items()
    ]
    return "; ".join(said) or NOT_YET


def linearity(found: Finished) -> str:
    """How linear the median latent is, and how many latents are."""
    said = [
        f"{name}: {row['linear_r2']:.0%} of the median latent's variance, and over {LINEAR:.0%} in "
        f"{row['linear_share']:.0%} of the latents"
        for name, row in found.bilinear.items()
        if row["linear_r2"] is not None
    ]
    return "; ".join(said) or NOT_YET


def agreement_of(found: Finished, about: str, chance: str | None) -> str:
    """The three measures of agreement of all pairs of one sort, beside chance."""
    pairs = [each for each in found.comparisons if each["about"] == about]
    if not pairs:
        return NOT_YET
    null = next((each for each in found.comparisons if each["about"] == chance), {})
    said = [
        f"{label} {spread([each[column] for each in pairs]) if len(pairs) > 1 else f'{pairs[0][column]:.2f}'}"
        + (f", chance {null[column]:.2f}" if column in null else "")
        for column, label in AGREEMENTS.items()
        if all(column in each for each in pairs)
    ]
    return f"{len(pairs)} pairs: {'; '.join(said)}" if len(pairs) > 1 else "; ".join(said)


def over_alpha(found: Finished) -> str:
    """Agreement between composite dictionaries of different alpha."""
    near = [
        each
        for each in found.comparisons
        if each["about"] == "alphas, composite" and abs(each["alpha"] - each["other_alpha"]) < 0.25
    ]
    whole = agreement_of(found, "alphas, composite", "chance, composite")
    if not near:
        return whole
    values = ", ".join(f"{each['alpha']:g} and {each['other_alpha']:g}: {each['frobenius']:.2f}" for each in near)
    return f"{whole}. Sim_F of neighbouring α: {values}"


def over_seeds(found: Finished) -> str:
    """Agreement between two seeds, of the paper's recipe and of the default."""
    said = [
        f"{name}: {agreement_of(found, f'seeds, {name}', f'chance, {name}')}"
        for name in ("composite", "default")
        if any(each["about"] == f"seeds, {name}" for each in found.comparisons)
    ]
    return ". ".join(said) or NOT_YET


def across_priors(found: Finished) -> str:
    """Agreement of the composite dictionary with the other priors."""
    said = [
        f"composite with {each['other_prior']}: "
        + ", ".join(f"{label} {each[column]:.2f}" for column, label in AGREEMENTS.items() if column in each)
        for each in found.comparisons
        if each["about"] == "priors"
    ]
    return "; ".join(said) or NOT_YET


def affine_lens(found: Finished) -> str:
    """The default against the paper's composite dictionary."""
    composite, default = found.main("composite"), found.default
    if composite is None or default is None:
        return NOT_YET
    columns = {
        "error": "error", "constant": "error_constant", "linear": "error_linear", "quadratic": "error_quadratic",
        "error of 32 active": "error_of_32_active", "dense share": "dense_share", "captured by 3": "captured_3",
    }  # fmt: skip
    said = [
        f"{name} {composite[column]:.3f} → {default[column]:.3f}"
        for name, column in columns.items()
        if composite[column] is not None and default[column] is not None
    ]
    return (
        f"paper's composite → default: {', '.join(said)}; active per token {composite['active_per_token']} → "
        f"{default['active_per_token']}. {_unpenalized(found)}The default differs in its lens, in α, in the latents "
        "that it is trained with and in penalties on overlap and mean; which of the others makes the difference is "
        "not measured here"
    )


def _unpenalized(found: Finished) -> str:
    without = found.unpenalized
    if without is None:
        return ""
    error, constant = without["error"], without["error_constant"]
    return f"Without its penalty on the mean the default has {error:.3f}, and {constant:.3f} in the constant block. "


class Claim(NamedTuple):
    """One claim, what the paper says, and a function that reads our measurement."""

    claim: str
    paper: str
    measured: Callable[[Finished], str]


CLAIMS = (
    Claim("Order of the priors", "quadratic < composite < atomic", ordering),
    Claim(
        "Against TopK (K = 32), in the product space and by block", "bilinear better across most layers", against_topk
    ),
    Claim(
        "Median latent captured by its leading eigenvalues",
        "most composite latents are well captured by 5 dimensions; most quadratic ones are full-rank",
        low_rank,
    ),
    Claim("Dense latents", "about 10 % (composite, layer 18, 64 M tokens)", dense),
    Claim("What a linear function of the token says of a latent", "–", linearity),
    Claim(
        "Agreement across α (composite)",
        "Sim_F above 90 % for similar sparsity; latents agree only 15–50 %",
        over_alpha,
    ),
    Claim("Agreement across seeds", "–", over_seeds),
    Claim("Agreement across priors", "latents agree even less, global similarity remains high", across_priors),
    Claim("What changes with the affine lens and the default recipe", "–", affine_lens),
)


def write_page(configs: list[RunConfig], settings: Settings, work: Path, results: Path, command: str) -> Path:
    """Write tables, figures and the page from what is finished; returns the page's path."""
    results.mkdir(parents=True, exist_ok=True)
    found, curves = read_finished(configs, work, settings), convergence(configs, work)
    main = [config for config in configs if only_cell(config).settings.n_latents == settings.n_latents]
    names = {name_of(config) for config in main}
    drawable = [row for row in curves if row["cell"] in names]
    if drawable:
        save_as_svg(draw_convergence(main, drawable), results, "convergence")
    try:
        with styled():
            drawn = draw_widths(FigureData(rows=tuple(found.recipes)))
        save_as_svg(drawn, results, "widths")
    except MissingDataError:
        pass  # fewer than two sizes so far
    if found.rows:
        write_atomically(results / "results.csv", csv_of_rows(found.rows).encode())
    page = results / "claims.md"
    write_atomically(page, ("\n".join(_lines(configs, found, curves, results, command)) + "\n").encode())
    return page


def _lines(configs: list[RunConfig], found: Finished, curves: list[Row], results: Path, command: str) -> Iterator[str]:
    settings = found.settings
    seen = settings.steps * settings.sequences_per_step * settings.corpus.block_length
    yield from (_title(found), "", "Generated by `make reproduce-large`; do not edit.", "")
    yield (
        f"{Path(settings.model).name}, layer {settings.layer}, k = {settings.n_latents:,}; {settings.steps:,} steps of "
        f"{settings.sequences_per_step * settings.corpus.block_length:,} tokens ({seen:,} in all, from "
        f"{settings.tokens:,} stored tokens of {settings.corpus.source}); {settings.held_out_tokens:,} "
        f"held-out tokens. {machine()}"
    )
    if settings.initial_atoms is not None:
        yield (
            f"Composite dictionaries start with {settings.initial_atoms:g} atoms per latent instead of all, which "
            "takes a fraction of the time; [Whole runs](../../speed.md#whole-runs) compares both starts."
        )
    if settings.gradient_dtype != "auto":
        yield (
            f"Factors of the products that give the gradients of the atoms are rounded to {settings.gradient_dtype}; "
            "[Whole runs](../../speed.md#whole-runs) compares this too."
        )
    yield f"α rises to its value over the first {settings.warmup:,} steps."
    yield from ("", *_missing(configs, found), "", PRIMER, "")
    yield from ("| claim | paper | measured here |", "|---|---|---|")
    for each in CLAIMS:
        yield f"| {each.claim} | {each.paper} | {each.measured(found)} |"
    yield from ("", "## Cells", "", *_cell_table(found), "")
    yield from (*(["All columns: [results.csv](results.csv).", ""] if found.rows else []), *_floor_lines(found), "")
    yield from ("## Convergence", "")
    yield from (
        f"Held-out error (the first {CURVE_TOKENS:,} tokens at most) at three quarters of the steps and at the end. "
        f"*Flat*: it changes by less than 2 %. {_learning_rate(settings)}",
        "",
    )
    yield from ("| cell | steps | at ¾ | at the end | fall | |", "|---|---|---|---|---|---|")
    words = in_words(configs)
    yield from (*flatness(curves, settings.steps, words), "", order_at_equal_steps(configs, curves, settings), "")
    yield from figure_lines(results, "convergence", f"Held-out error over steps, k = {settings.n_latents:,}.")
    yield from ("## Number of latents", "", *(where_lines_cross(found) or [NOT_YET]), "")
    yield from figure_lines(
        results,
        "widths",
        "Held-out error over the number of latents. Bands: range over seeds, or 95 % over sequences where there is one "
        "seed; grey: the floor lies inside the band.",
    )
    yield from ("## Agreement", "", *_agreement_table(found, words), "", *_agreement_over_training(found))
    yield from ("The command:", "", "```", command, "```", "")


def _learning_rate(settings: Settings) -> str:
    if not settings.learning_rate_decay:
        return f"The learning rate is constant, {settings.learning_rate:g}."
    return (
        f"The learning rate is {settings.learning_rate:g} and falls linearly to 0 over the last "
        f"{settings.learning_rate_decay:.0%} of the steps; curves flatten with it, so a flat one does not say that a "
        "longer training would change nothing."
    )


def _title(found: Finished) -> str:
    """Only k = 8 d is the paper's; length of training and learning rate tell pages of one size apart."""
    settings = found.settings
    is_papers = all(settings.n_latents == 8 * row["d_model"] for row in found.rows)
    sizes = sorted({settings.n_latents, *settings.widths})
    widths = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    size = "At the paper's proportions" if is_papers else f"{widths} latents"
    decay = ", decaying learning rate" if settings.learning_rate_decay else ""
    return f"# {size}: {settings.steps:,} steps{decay}"


def _missing(configs: list[RunConfig], found: Finished) -> list[str]:
    done = {row["cell"] for row in found.rows}
    missing = [words for name, words in in_words(configs).items() if name not in done]
    if not missing:
        return [f"All {len(configs)} cells are finished."]
    return [
        f"{len(configs) - len(missing)} of {len(configs)} cells are finished. Missing:",
        "",
        *(f"- {m}" for m in missing),
    ]


def where_lines_cross(found: Finished) -> list[str]:
    """Sentences on the widths at which each bilinear line crosses TopK's, whole and in the quadratic block."""
    series = {
        each.look.label: over_width(each) for each in all_series(at_one_layer(FigureData(rows=tuple(found.recipes))))
    }
    topk = series.pop(LOOKS["topk"].label, [])
    said = []
    for label, line in series.items():
        shared = {row["n_latents"] for row in topk} & {row["n_latents"] for row in line}
        if len(shared) > 1:
            whole, block = (_crossing(line, topk, column) for column in ("error", "error_quadratic"))
            said.append(f"- **{label}**: in the whole product space {whole}; in the quadratic block {block}.")
    return said


def _crossing(line: list[Row], topk: list[Row], column: str) -> str:
    others = {row["n_latents"]: row[column] for row in topk if row[column] is not None}
    mine = [row for row in line if row["n_latents"] in others and row[column] is not None]
    if not mine:
        return "not measured"
    if found := crossings(mine, topk, column):
        after = "below" if mine[-1][column] < others[mine[-1]["n_latents"]] else "above"
        return f"it crosses TopK at k ≈ {', '.join(f'{k:,.0f}' for k in found)} and ends {after} it"
    below = mine[0][column] < others[mine[0]["n_latents"]]
    return (
        f"it stays {'below' if below else 'above'} TopK from k = {mine[0]['n_latents']:,} to {mine[-1]['n_latents']:,}"
    )


def _cell_table(found: Finished) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    for row in sorted(
        found.rows, key=lambda row: (-row["n_latents"], row["lens"] or "", row["kind"], row["alpha"] or 0)
    ):
        captured = "/".join(_percent(row[f"captured_{rank}"]) for rank in (1, 3, 5)) if row["captured_1"] else "–"
        blocks = " | ".join(_number(row[f"error_{block}"]) for block in ("constant", "linear", "quadratic"))
        alpha = "–" if row["alpha"] is None else f"{row['alpha']:g}"
        kind = row["kind"] + (NO_PENALTY if lacks_penalty(row) else "")
        yield (
            f"| {row['n_latents']:,} | {kind} | {row['lens'] or '–'} | {alpha} | {row['seed']} | "
            f"{error_with_interval(row)} | {blocks} | {row['active_per_token']} | {row['error_of_32_active']:.3f} | "
            f"{captured} | {row['dense_share']:.1%} | {row['n_distinct']:,} | {_linear(row)} |"
        )


def _floor_lines(found: Finished) -> Iterator[str]:
    if not found.floor["bounds"]:
        return
    yield (
        f"Floor by PCA of xxᵀ, components from {found.floor['sample_tokens']:,} training tokens; the floor lies "
        "between the error on these tokens and the error on held-out ones:"
    )
    yield from ("", "| k | on its own tokens | on held-out tokens |", "|---|---|---|")
    for each in found.floor["bounds"]:
        yield f"| {each['n_latents']:,} | {each['fitted']:.4f} | {each['held_out']:.4f} |"


def _agreement_table(found: Finished, words: dict[str, str]) -> Iterator[str]:
    yield from (f"| about | first | second | {' | '.join(AGREEMENTS.values())} |", "|---" * (3 + len(AGREEMENTS)) + "|")
    for each in sorted(found.comparisons, key=lambda each: (each["about"], each["first"], each["second"])):
        second = RANDOM if each["second"] == RANDOM else words[each["second"]]
        yield f"| {each['about']} | {words[each['first']]} | {second} | {_agreements(each)} |"


def _agreement_over_training(found: Finished) -> Iterator[str]:
    if len(found.over_training) < 2:  # the end alone is in the table above
        return
    yield from ("Two seeds of the composite dictionary over the course of training:", "")
    yield from (f"| steps | {' | '.join(AGREEMENTS.values())} |", "|---" * (1 + len(AGREEMENTS)) + "|")
    for each in found.over_training:
        yield f"| {each['step']} | {_agreements(each)} |"
    yield ""


def _agreements(compared: dict[str, Any]) -> str:
    return " | ".join(_number(compared.get(name)) for name in AGREEMENTS)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _linear(row: Row) -> str:
    return "–" if row["linear_r2"] is None else f"{row['linear_r2']:.2f} ({row['linear_share']:.0%})"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def draw_convergence(configs: list[RunConfig], rows: list[Row]) -> Drawn:
    """One line for each main cell."""
    with styled():
        figure, ((axes,),) = panels(1, 1, 4.2, width=5.6)
        for config in configs:
            name, look = name_of(config), _look(config)
            line = [(row["step"], row["error"]) for row in rows if row["cell"] == name]
            if line:
                steps, errors = zip(*line, strict=True)
                cell = only_cell(config)
                is_composite, alpha = look is LOOKS["composite"], alpha_of(cell) or 0.0
                marker = ALPHA_MARKERS.get(alpha, look.marker) if is_composite else look.marker
                marker = "x" if is_unpenalized(cell) else marker
                style: dict[str, Any] = {"color": look.colour, "marker": marker, "markersize": 3, "linewidth": 1}
                axes.plot(steps, errors, look.dashes, alpha=1 - 0.5 * cell.seed, label=_label(config, look), **style)
        axes.set_xlabel("steps")
        axes.set_ylabel("held-out error")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
    return Drawn(figure, rows)


def _look(config: RunConfig) -> Look:
    made = only_cell(config).settings
    return (AFFINE_LOOKS if made.lens_name == "affine" else LOOKS)[made.kind]


def in_words(configs: list[RunConfig]) -> dict[str, str]:
    """What each cell is, by its name, which is too long for a table."""
    return {
        name_of(each): f"{_label(each, _look(each))}, k = {only_cell(each).settings.n_latents:,}" for each in configs
    }


def _label(config: RunConfig, look: Look) -> str:
    cell = only_cell(config)
    alpha = "" if (weight := alpha_of(cell)) is None else f", α = {weight:g}"
    penalty = NO_PENALTY if is_unpenalized(cell) else ""
    return f"{look.label}{alpha}{penalty}" + (f", seed {cell.seed}" if cell.seed else "")
