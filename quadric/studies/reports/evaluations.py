"""Evaluations as they are printed."""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from quadric._io.terminal import number_table
from quadric.evaluation import Evaluation
from quadric.evaluation.record import Predictions

RECOVERED_HEADINGS = ("CE recovered", "sign given", "KL recovered")


def print_evaluations(found: list[Evaluation], console: Console) -> None:
    """Errors, what to compare them with, and predictions recovered, each with a sentence that explains it."""
    for number, each in enumerate(found, 1):
        console.print(f"{number:>3}  {each.run}: {each.name}", soft_wrap=True, highlight=False)
    console.print(_table(found))
    part = "training" if found[0].split == "train" else "held-out"
    console.print(
        f"Error: ‖X̂ − xxᵀ‖²/‖xxᵀ‖² on {found[0].measures.n_tokens:,} {part} tokens, 95 % interval over sequences. "
        "Dense: Hoyer density over 0.5. Dead: never reaches 1 % of the median latent."
    )
    console.print(_reference_table(found))
    console.print(
        "Floor: error of PCA of xxᵀ with as many components as latents. Constant, linear, quadratic: error of each "
        f"part of xxᵀ about the mean token{_energies(found[0])}. Copies: |cosine| over 0.95 with an earlier latent."
    )
    if (recovered := found[0].recovered) is not None:
        console.print(_numbered(RECOVERED_HEADINGS, map(_recovered_cells, found)))
        console.print(
            "Recovered: share of the cost of zero / mean ablation that is avoided, in cross-entropy (CE) and "
            f"divergence (KL), over {recovered.n_tokens:,} predictions; the model's own: {recovered.original:.3f}. "
            "Dictionaries that read unit tokens are given the length of x. Sign given: by rank-1 decoding with the "
            "sign for which x̂·x ≥ 0, the only way with the paper's lens."
        )


def _table(found: list[Evaluation]) -> Table:
    rows = (
        (
            f"{evaluation.measures.error.mean:.3f}",
            f"{evaluation.measures.error.low:.3f}–{evaluation.measures.error.high:.3f}",
            f"{evaluation.measures.density:.3f}",
            f"{evaluation.measures.dense_share:.0%}",
            f"{evaluation.measures.dead_share:.0%}",
        )
        for evaluation in found
    )
    return _numbered(("error", "95 %", "density", "dense", "dead"), rows)


def _reference_table(found: list[Evaluation]) -> Table:
    """What the errors are to be compared with, and how many latents there really are."""
    rows = []
    for each in found:
        errors = (each.floor, each.error_constant, each.error_linear, each.error_quadratic)
        counts = (f"{count:,}" for count in (each.n_distinct, each.n_empty, each.n_copies))
        rows.append((*("–" if error is None else f"{error:.3f}" for error in errors), *counts))
    return _numbered(("floor", "constant", "linear", "quadratic", "distinct", "empty", "copies"), rows)


def _numbered(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    cells = ((str(number), *row) for number, row in enumerate(rows, 1))
    return number_table(("", *headings), cells, n_words=0)


def _energies(each: Evaluation) -> str:
    blocks = each.measures.blocks
    if blocks is None:
        return ""
    shares = ", ".join(f"{share:.0%}" for share in blocks.energy)
    constancy = f"m·u = {blocks.along:.2f} ± {blocks.along_deviation:.2f} for unit tokens u"
    return f", which hold {shares} of its energy ({constancy})"


def _recovered_cells(each: Evaluation) -> list[str]:
    """Cross-entropy without and with the sign of x, and divergence, each against both ablations."""
    recovered = each.recovered
    if recovered is None:
        return [""] * len(RECOVERED_HEADINGS)
    ablations = (recovered.zero, recovered.mean)

    def shares(measure: Callable[..., float], *given: Predictions) -> str:
        return " / ".join(f"{measure(ablation, *given):.0%}" for ablation in ablations)

    own = "–" if each.lens == "paper" else shares(recovered.cross_entropy)
    borrowed = "–" if recovered.borrowed is None else shares(recovered.cross_entropy, recovered.borrowed)
    return [own, borrowed, shares(recovered.divergence)]
