"""Everyday concepts: their words, and prompts that can be followed by any of the words."""

from dataclasses import dataclass
from string import ascii_uppercase


@dataclass(frozen=True, kw_only=True)
class Concept:
    """Words of one kind. Each sentence ends with its word, because a causal model ignores later tokens anyway."""

    name: str
    words: tuple[str, ...]
    beginnings: tuple[str, ...]

    def sentences(self) -> list[list[str]]:
        """For each beginning, one sentence per word."""
        return [[f"{beginning} {word}" for word in self.words] for beginning in self.beginnings]


CONCEPTS = (
    Concept(
        name="weekdays",
        words=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        beginnings=(
            "The meeting was held on",
            "They will arrive next",
            "The shop is closed every",
            "It all happened on a",
            "She called him last",
            "The match was moved to",
        ),
    ),
    Concept(
        name="months",
        words=(
            *("January", "February", "March", "April", "May", "June"),
            *("July", "August", "September", "October", "November", "December"),
        ),
        beginnings=(
            "The album was released in",
            "He was born in",
            "The festival takes place every",
            "The war ended in",
            "It rains most in",
            "She moved to the city last",
        ),
    ),
    Concept(
        name="years",
        words=tuple(map(str, range(1900, 2020, 3))),
        beginnings=(
            "The bridge was built in",
            "The company was founded in",
            "He died in",
            "The film was released in",
            "She won the prize in",
        ),
    ),
    Concept(
        name="numbers",
        words=(
            *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
            *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
        ),
        beginnings=(
            "The village has",
            "She counted up to",
            "The team scored",
            "The house has more than",
            "There are at least",
        ),
    ),
    Concept(
        name="letters",
        words=tuple(ascii_uppercase),
        beginnings=(
            "The word begins with the letter",
            "The answer is",
            "The next letter of the alphabet is",
            "He marked it with the letter",
            "The road is called",
        ),
    ),
    Concept(
        name="countries",
        words=(
            *("France", "Germany", "Italy", "Spain", "Portugal", "Greece", "Poland", "Sweden", "Norway", "Russia"),
            *("China", "Japan", "India", "Pakistan", "Iran", "Turkey", "Egypt", "Nigeria", "Kenya", "Ethiopia"),
            *("Brazil", "Argentina", "Chile", "Peru", "Mexico", "Canada", "Cuba", "Australia", "Indonesia", "Vietnam"),
        ),
        beginnings=(
            "She was born in",
            "The largest river of",
            "They spent the summer in",
            "He is the ambassador to",
            "The history of",
        ),
    ),
)
