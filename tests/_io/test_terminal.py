"""No text can act on a terminal, and harmless text is not changed."""

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric._io.terminal import NARROWEST, one_line, printable, printable_json, safe_console

ANY_TEXT = st.text(st.characters(codec=None, categories=None, exclude_categories=()))
ACTING = "\x1b[31m\x07\x00\x9b\u202e\u2066\u200f\u2028\ud800\U000e0041"


def acts(letter: str) -> bool:
    return (
        (unicodedata.category(letter) == "Cc" and letter not in "\n\t")
        or unicodedata.category(letter) in ("Cs", "Zl", "Zp")
        or unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    )


@given(ANY_TEXT)
def test_nothing_that_acts_is_left(text: str) -> None:
    assert not any(acts(letter) for letter in printable(text))
    printable(text).encode()
    assert "\n" not in one_line(text)
    assert "\t" not in one_line(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_letters_of_every_script_stay(text: str) -> None:
    assert printable(text) == text


def test_joined_emoji_and_line_ends_stay() -> None:
    assert printable("a\tb\n👩‍🔬 नमस्ते") == "a\tb\n👩‍🔬 नमस्ते"


@given(st.dictionaries(st.text(), ANY_TEXT | st.integers() | st.none()))
def test_json_is_safe_and_reads_back_the_same(values: dict[str, object]) -> None:
    text = printable_json(values, indent=1)
    assert not any(acts(letter) for letter in text)
    assert json.loads(text) == values


def test_a_console_shows_markup_as_text_and_escapes_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.table import Table
    from rich.text import Text

    monkeypatch.setenv("COLUMNS", "3")
    console = safe_console()
    console.file = io.StringIO()
    table = Table("[/x]", title="o[bold]y :smile:")
    table.add_row(Text(ACTING))
    table.add_row("[link=http://evil]x")
    console.print("[/x]", table, ACTING)
    shown = console.file.getvalue()
    assert console.width == NARROWEST
    for whole in ("[/x]", "o[bold]y :smile:", "[link=http://evil]x", "\\x1b[31m"):
        assert whole in shown
    assert not any(acts(letter) for letter in shown)
