"""Reports as text: within eighty columns, with the numbers that matter."""

from io import StringIO

import torch
from rich.console import Console

from quadric.studies.reports.run_comparison import compare_runs
from quadric.studies.reports.run_report import report_on
from quadric.studies.reports.terminal import comparison_in_terminal, report_in_terminal
from tests.geometry.examples import by_hand, planted_shapes, trained


def printed(content) -> str:
    console = Console(width=80, file=StringIO())
    console.print(content)
    return console.file.getvalue()


def test_planted_shapes_in_the_terminal():
    text = printed(report_in_terminal(report_on("[bold]planted", planted_shapes()), top=20))
    assert "[bold]planted" in text  # a name is not markup
    assert "The 6 most important latents" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip() and line.split()[0].isdigit()}
    assert rows["0"].split()[-1] == "circle"
    assert rows["1"].split()[-1] == "sphere"
    assert rows["2"].split()[-1] == "hyperbola"
    assert rows["3"].split()[-1] == "slab"
    assert rows["5"].split()[-2:] == ["ellipse,", "−"]
    assert "…" not in text


def test_a_large_bin_is_a_full_bar_and_a_small_one_is_not_lost():
    mixing = torch.eye(40)
    mixing[0, 1:3] = 1
    text = printed(report_in_terminal(report_on("run", by_hand(torch.eye(40), torch.eye(40), mixing)), top=3))
    line = next(line for line in text.splitlines() if "support (atoms)" in line)
    assert line.split() == ["support", "(atoms)", "1", "█", "▁", "3", "1"]


def test_a_comparison_in_the_terminal():
    comparison = compare_runs(["a/[x]", "b/y"], [trained(), trained(seed=1)])
    text = printed(comparison_in_terminal(comparison))
    assert "[x]" in text
    agreement = comparison.pairs[0, 1]
    assert f"{agreement.agreement.frobenius:.3f} ({agreement.random.frobenius:.3f})" in text
    assert "1 – 2" in text
