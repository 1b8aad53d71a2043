"""Tables and files of explanations: complete, and harmless whatever the text is."""

import csv
import io
import json
from pathlib import Path

import pytest

from quadric._io.terminal import safe_console
from quadric.explanations import Explainer, Explanation
from quadric.explanations.record import write_explanations
from quadric.studies.reports.explanations import explanation_in_terminal, quantile_words, token_words

HOSTILE = "<img src=x onerror=alert(1)> \u202e \x1b[31m</script><script>1</script> =1+1 [bold]"


@pytest.fixture(scope="module")
def hostile(explainer: Explainer) -> Explanation:
    return explainer.explain([HOSTILE])[0]


def test_a_terminal_shows_tokens_and_obeys_none(hostile: Explanation, capsys: pytest.CaptureFixture[str]) -> None:
    safe_console().print(explanation_in_terminal(hostile))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b" in shown
    assert "quantile" in shown
    assert "Strength: share of the token's rebuilt energy" in " ".join(shown.split())


def test_quantiles_beyond_the_known_ones_are_bounds() -> None:
    words = [quantile_words(each) for each in (0.999, 0.001, 0.9951, 0.5, None)]
    assert words == ["> 99.9 %", "< 0.1 %", "99.5 %", "50.0 %", ""]


def test_white_space_and_parts_of_characters_are_visible(explainer: Explainer) -> None:
    (found,) = explainer.explain([" é"])
    assert [token_words(token) for token in found.tokens] == ["␣", "é", "‥"]


def test_files_hold_the_same(hostile: Explanation, tmp_path: Path) -> None:
    for ending in (".json", ".csv"):
        write_explanations([hostile], tmp_path / f"sub/found{ending}")
    stored = json.loads((tmp_path / "sub/found.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps([hostile.as_json()]))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sub/found.csv").read_text(encoding="utf-8"), newline="")))
    assert len(rows) == sum(len(token.latents) for token in hostile.tokens)
    assert {row["token"] for row in rows if row["token"].endswith("=")} == {"'="}  # no formula
