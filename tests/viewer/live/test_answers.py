"""Answers are kept within a bound, the least recently used go first."""

from quadric.viewer.live.answers import Answers


def test_answers_are_kept_until_there_are_too_many_bytes() -> None:
    answers = Answers(most_bytes=30)
    answers.put("a", b"x" * 9)
    answers.put("b", b"y" * 9)
    assert answers.get("a") == b"x" * 9
    answers.put("c", b"z" * 14)
    assert answers.get("b") is None
    assert answers.get("a") == b"x" * 9
    assert answers.n_bytes == 25
    answers.put("a", b"new")
    assert (answers.get("a"), answers.n_bytes) == (b"new", 19)
    answers.put("huge", b"h" * 100)
    assert answers.get("huge") is None
    assert answers.get("c") == b"z" * 14
