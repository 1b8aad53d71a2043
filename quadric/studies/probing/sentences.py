"""Sentences made from words with a known place on a line or a circle: weekdays, months, days, hours, years.

Every sentence ends with its word, after one of several beginnings. A set comes in two forms. In `weekdays`, all rows of
a word are in one fold, so that a probe must place words that it has never seen, as on a circle (or line). In
`weekdays_known`, all rows of a beginning are in one fold, so that a probe has seen every word: telling the words apart
is enough.
"""

from collections.abc import Callable
from typing import NamedTuple

from quadric.evidence.concepts.words import CONCEPTS
from quadric.studies.probing.labelled import LabelledSet

SOURCE = "made here"
_WORDS = {concept.name: concept for concept in CONCEPTS}
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


class Series(NamedTuple):
    """Words in order, at equal steps on a line, or on a circle if there is a period."""

    words: tuple[str, ...]
    first: float
    step: float
    period: int | float | None
    beginnings: tuple[str, ...]
    about: str


SERIES = {
    "weekdays": Series(
        _WORDS["weekdays"].words,
        *(0, 1, 7),
        (
            *_WORDS["weekdays"].beginnings,
            *("See you on", "Today is", "Tomorrow will be", "The letter came on", "I was born on a"),
            *("The museum opens on", "We always eat fish on", "The game starts late on", "Rain is expected on"),
            *("The president spoke on", "The deadline is", "He goes to church every"),
        ),
        "the weekday at the end, on a circle of 7",
    ),
    "months": Series(
        _WORDS["months"].words,
        *(0, 1, 12),
        (
            *_WORDS["months"].beginnings,
            *("The exam is in", "They got married in", "Snow fell in", "The contract ends in", "We will meet again in"),
            "The harvest begins in",
        ),
        "the month at the end, on a circle of 12",
    ),
    "days_of_month": Series(
        tuple(f"{day}{_ORDINALS.get(day, 'th')}" for day in range(1, 32)),
        *(1, 1, 31),
        (
            *("The meeting is on March", "He was born on July", "The letter is dated May", "It happened on October"),
            *("The shop reopens on December", "She arrived on August", "The rent is due on January"),
            *("The war ended on the", "We leave on the", "The report came out on the"),
        ),
        "the day of the month at the end, on a circle of 31",
    ),
    "hours": Series(
        tuple(f"{(hour - 1) % 12 + 1} {'am' if hour < 12 else 'pm'}" for hour in range(24)),
        *(0, 1, 24),
        (
            *("The train leaves at", "She woke up at", "The shop closes at", "We had dinner at", "The call came at"),
            *("It was exactly", "The party started at", "The alarm went off at", "He left the house at"),
            "The flight lands at",
        ),
        "the hour at the end, on a circle of 24",
    ),
    "years": Series(
        _WORDS["years"].words,
        *(1900, 3, None),
        (*_WORDS["years"].beginnings, "It all began in", "The law was passed in", "The city hosted the games in"),
        "the year at the end, 1900 to 2017",
    ),
}


def _made(name: str, series: Series, known: bool) -> LabelledSet:
    pairs = [(word, beginning) for word in range(len(series.words)) for beginning in range(len(series.beginnings))]
    split = "new beginnings" if known else "new words"
    return LabelledSet(
        name=f"{name}_known" if known else name,
        kind="continuous" if series.period is None else "cyclic",
        texts=[f"{series.beginnings[beginning]} {series.words[word]}" for word, beginning in pairs],
        labels=[series.first + series.step * word for word, _ in pairs],
        period=series.period,
        groups=[beginning if known else word for word, beginning in pairs],
        about=f"{series.about}; {split} in every fold",
        source=SOURCE,
    )


def _maker(name: str, known: bool) -> Callable[[], LabelledSet]:
    return lambda: _made(name, SERIES[name], known)


SENTENCE_SETS: dict[str, Callable[[], LabelledSet]] = {
    (f"{name}_known" if known else name): _maker(name, known) for name in SERIES for known in (False, True)
}
"""Sets by name; made when they are asked for."""
