"""A plan as it is printed."""

from collections.abc import Iterator

from rich.table import Table

from quadric.data.forward import ReadingCost
from quadric.studies.planning.planning import CellPlan, RunPlan

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def tables(plan: RunPlan) -> Iterator[Table]:
    """A table per dictionary; one for all that cost the same, under a title that counts them."""
    alike: dict[str, list[str]] = {}
    for name, cell in plan.autoencoders.items():
        alike.setdefault(repr(cell), []).append(name)
    for first, *others in alike.values():
        title = f"{first} and {len(others)} more that cost the same" if others else first
        yield _table(title, plan.autoencoders[first])


def _table(title: str, plan: CellPlan) -> Table:
    headings = (f"{each.name}, steps {each.first_step}–{each.last_step}" for each in plan.phases)
    table = Table("per step", *headings, title=title, title_justify="left", min_width=min(len(title), 78))
    for part in (parts := plan.phases[0].flops_per_step):
        values = (_counted(each.flops_per_step[part]) for each in plan.phases)
        table.add_row(f"{part}, FLOPs", *values, end_section=part == list(parts)[-1])
    times = (_duration(each.seconds_per_step) + ", products alone" * (not each.is_measured) for each in plan.phases)
    table.add_row("time", *times, end_section=True)
    table.add_row("memory kept", *(_bytes(each.state_bytes) for each in plan.phases))
    table.add_row("peak memory", *(_bytes(each.peak_bytes) for each in plan.phases))
    return table


def account(plan: RunPlan, reading: ReadingCost | None, processes: int) -> str:
    """What a run needs as a whole, in a few sentences."""
    each = " in each process" if processes > 1 else ""
    n_planned, rate = len(plan.autoencoders), plan.matmul_flops_per_second
    subject = "Training" if n_planned == 1 else f"Training all {n_planned} dictionaries together"
    lines = [
        f"{subject} takes up to {_bytes(plan.peak_bytes)}{each}; checkpoints up to {_bytes(plan.checkpoint_bytes)}."
    ]
    if plan.not_modelled:
        lines.append(f"Not included, because their cost is not known: {', '.join(plan.not_modelled)}.")
    if reading is not None:
        lines.append(
            f"The language model runs {reading.n_layers} layers: {_counted(reading.flops_per_token)}FLOPs per token, "
            f"{_counted(plan.reading_flops_per_step)}FLOPs per step{each}; its weights take another "
            f"{_bytes(reading.weight_bytes)} in float32."
        )
    how = "by a few real steps just measured on this machine's CPU"
    if not plan.is_measured:
        how += (
            "; steps that are too large to be tried count by their matrix products alone, at "
            f"{_counted(rate)}FLOP/s in float32, so expect more"
        )
    lines.append(
        f"The run takes {_counted(plan.flops)}FLOPs{each}, and {_duration(plan.seconds)} {how}. Every step of a phase "
        "is counted as its most expensive one."
    )
    return "\n".join(lines)


def _counted(number: float) -> str:
    scale, unit = next((s, u) for s, u in UNITS if number >= s or s == 1.0)
    return f"{number / scale:.3g} {unit}"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    units = ((7200, 3600, "h"), (120, 60, "min"), (1, 1, "s"), (0, 0.001, "ms"))
    scale, unit = next((scale, unit) for least, scale, unit in units if seconds >= least)
    return f"{seconds / scale:.3g} {unit}"
