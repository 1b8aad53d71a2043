"""Everyday concepts: their words, and prompts that can be followed by any of the words, as words.toml lists them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Concept:
    """Words of one kind. Each sentence ends with its word, because a causal model ignores later tokens anyway."""

    name: str
    words: tuple[str, ...]
    beginnings: tuple[str, ...]

    def sentences(self) -> list[list[str]]:
        """For each beginning, one sentence per word."""
        return [[f"{beginning} {word}" for word in self.words] for beginning in self.beginnings]


CONCEPTS = tuple(
    Concept(name=name, words=tuple(concept["words"]), beginnings=tuple(concept["beginnings"]))
    for name, concept in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
)
