"""The paper's claims on a page of `make reproduce-large`: each with a function that says what was measured.

Every sentence is made from measured numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

from large_cells import LINEAR
from large_measured import AGREEMENTS, PRIORS, Finished, error_with_interval
from paper_claims import NOT_YET, spread

from quadric.studies.sweep.rows import Row


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
