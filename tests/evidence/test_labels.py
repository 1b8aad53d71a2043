"""Labels: the tokens that tell, in few words."""

import numpy as np

from quadric.evidence.labels import SignTokens, label, readable, sign_tokens, spellings
from quadric.evidence.token_energy import preferences


def test_spellings_that_differ_by_case_or_space_are_one() -> None:
    groups = spellings([b" his", b"her", b"His", b" Her", b"\xe2\x80"], np.array([0.4, 0.3, 0.1, 0.1, 0.1]))
    assert groups.texts == ["his", "her", "‹e2 80›"]
    np.testing.assert_array_equal(groups.group, [0, 1, 0, 1, 2])
    np.testing.assert_allclose(groups.frequencies, [0.5, 0.4, 0.1])


def test_white_space_and_parts_of_characters_can_be_read() -> None:
    assert readable(b"\n\n") == "⏎⏎"
    assert readable(b"  ") == "␣␣"
    assert readable("é ".encode()) == "é"
    assert readable(b"\xc3") == "‹c3›"


def test_a_label_joins_both_signs_or_marks_a_negative_one() -> None:
    ups, downs = SignTokens(["his", "her"], 0.6), SignTokens(["they"], 0.4)
    assert label(ups, downs) == "his · her ↔ they"
    assert label(ups, SignTokens(["they"], 0.05)) == "his · her"
    assert label(SignTokens([], 0.0), SignTokens(["they"], 1.0)) == "− they"
    assert label(SignTokens([], 0.0), SignTokens([], 0.0)) == ""


def test_a_sign_names_up_to_three_tokens_and_none_far_weaker_than_the_best() -> None:
    groups = spellings([bytes([97 + i]) for i in range(20)], np.full(20, 0.05))
    many = preferences(np.repeat(np.arange(5), 20).astype(np.int32), np.ones(100), groups.frequencies)
    assert sign_tokens(many, groups, 1.0).texts == ["a", "b", "c"]
    tokens = np.array([0] * 90 + [1] * 10, dtype=np.int32)
    assert sign_tokens(preferences(tokens, np.ones(100), groups.frequencies), groups, 1.0).texts == ["a"]


def test_a_sign_without_a_favourite_is_mixed() -> None:
    frequencies = np.full(200, 1 / 200)
    groups = spellings([str(i).encode() for i in range(200)], frequencies)
    broad = preferences(np.arange(100).astype(np.int32), np.ones(100), frequencies)
    assert sign_tokens(broad, groups, 1.0).texts == ["mixed"]
