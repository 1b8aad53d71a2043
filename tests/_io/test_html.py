"""What notebooks show: escaped, and with every value."""

import torch

import quadric
from quadric._io.html import facts_table, rows_table


def test_tables_escape_what_they_show() -> None:
    assert "<b>" not in facts_table("<b>", {"<b>": "<b>"}) + rows_table("<b>", ["<b>"], [["<b>"]])
    assert "&lt;b&gt;" in facts_table("t", {"a": "<b>"})


def test_a_dictionary_and_its_evaluation_are_shown_as_tables() -> None:
    ae = quadric.TopK(n_latents=16, n_active=3).build(8)
    assert "<th>n_active</th><td>3</td>" in ae._repr_html_()
    shown = quadric.evaluate(ae, torch.randn(300, 8))._repr_html_()
    assert "<th>error</th>" in shown
    assert "topk with 16 latents" in shown
