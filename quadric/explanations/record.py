"""What latents say about one text: plain records, and files of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quadric._io.results import csv_text, json_text, write_result

SHOWN_TOKENS = 12
COLUMNS = ("text", "position", "token", "rank", "latent", "label", "value", "quantile", "share", "strength")


@dataclass(frozen=True, kw_only=True)
class TokenLatent:
    """One latent on one token."""

    latent: int
    label: str
    """Name of the side on which the token lies; "− " marks values below rest. Empty without evidence."""
    value: float
    """sign·z of the unit token, as sites show it; z with the sign of the weights without evidence."""
    quantile: float | None
    """Share of the evidence's tokens with a smaller value, between 0.001 and 0.999; None without evidence."""
    share: float
    """Share of the token's rebuilt energy: z_i (Kz)_i / zᵀKz. All latents together have 1; a share may be negative."""
    strength: float
    """What latents are ranked by."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of the text, and its strongest latents."""

    text: str
    """A character of several tokens belongs to the first of them; the others are empty."""
    token_id: int
    dropped: str | None
    """Why the token was not explained: "special token" or "attention sink", as in training."""
    latents: list[TokenLatent]
    """Strongest first."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A token on which a latent fires."""

    token: int
    """Index into `Explanation.tokens`."""
    value: float
    quantile: float | None
    share: float
    strength: float


@dataclass(frozen=True, kw_only=True)
class TextLatent:
    """One latent over the whole text."""

    latent: int
    label: str
    strength: float
    """Sum over its firings."""
    firings: list[Firing]
    """In the order of the text."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """Which latents explain each token of a text, and where each latent fires."""

    text: str
    tokens: list[Token]
    latents: list[TextLatent]
    """Strongest first."""
    ranking: str
    """How strength is defined."""
    notes: list[str]
    """What a reader should know, in sentences."""

    def __repr__(self) -> str:
        words = [f"{token.text.strip()!r}: {_named(token)}" for token in self.tokens[:SHOWN_TOKENS]]
        more = f", … {len(self.tokens) - SHOWN_TOKENS} more" if len(self.tokens) > SHOWN_TOKENS else ""
        return f"Explanation({', '.join(words)}{more})"

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)


def _named(token: Token) -> str:
    if token.dropped:
        return token.dropped
    return f"{token.latents[0].latent} [{token.latents[0].label}]" if token.latents else "nothing"


def write_explanations(found: Sequence[Explanation], path: Path) -> None:
    """Write everything (.json) or one row per token and latent (.csv), chosen by the ending of the path."""
    write_result(path, {".csv": lambda: _csv(found), ".json": lambda: json_text([each.as_json() for each in found])})


def _csv(found: Sequence[Explanation]) -> str:
    rows = (
        (text, place, token.text, rank, *(getattr(latent, name) for name in COLUMNS[4:]))
        for text, explanation in enumerate(found)
        for place, token in enumerate(explanation.tokens)
        for rank, latent in enumerate(token.latents)
    )
    return csv_text(COLUMNS, rows)
