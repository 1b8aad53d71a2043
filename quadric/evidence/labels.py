"""Short names for latents, made offline from the tokens that each sign prefers.

Here z is the deviation from rest. Preferences are estimated for the whole pass from the weighted draw, which is not
representative: it prefers large |z|. With τ the largest key of a full draw, a token of weight w is among the others
with probability 1 − exp(−wτ), so Σ z² / (1 − exp(−wτ)) over them estimates Σz² over the whole pass without bias (Cohen
and Kaplan, 2007). Only tokens that fire count: those with |z| above the threshold of the settings.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int, Int64

Array = np.ndarray

PRIOR_TOKENS = 10.0
"""Weight of the text's own token frequencies as a prior, in tokens."""
METHOD = (
    "the tokens that each sign prefers, ranked by p·log(p/q). q is a token's share of all scored tokens, and p its "
    "share of the sign's Σ(z − rest)², smoothed towards q with the weight of 10 tokens. Spellings that differ only in "
    "case or spaces are counted together. 'After X' is added if more than half of that sum follows the token X, and X "
    "ranks higher by the same measure"
)
MOST_TOKENS = 3
SMALLEST_PART = 0.2
"""Share of the best token's contribution below which a token is left out of a label."""
SMALLEST_SHARE = 0.03
"""Share of the firing energy; a sign whose best token has less prefers many tokens: its label ends in an ellipsis."""
SMALLEST_LIFT = 5.0
"""Lift of the best token of such a sign below which it prefers nothing in particular and is called mixed."""
SMALLEST_SIGN = 0.1
"""Share of the firing energy below which a sign is left out of a label."""
SMALLEST_SHARE_BEFORE = 0.5
"""Share of the firing energy that must follow the same token for a label to name that token."""
LONGEST_TOKEN = 80
"""Characters of one token in a label; a row of a tensor may have a whole document as its text."""
MOST_FURTHER = 6
"""Further tokens per sign that may tell a latent from others with the same label."""
MIXED = "mixed"
ELLIPSIS = "…"
WHITE_SPACE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}


class TokenPreference(NamedTuple):
    """Tokens by how well they distinguish a latent's firing from the rest of the text, best first."""

    tokens: Int64[Array, " t"]
    shares: Float64[Array, " t"]
    """p: share of the firing energy Σz² on the token, smoothed towards q with the weight of PRIOR_TOKENS."""
    lifts: Float64[Array, " t"]
    """p / q, where q is the token's share of all tokens scored."""
    contributions: Float64[Array, " t"]
    """p log(p / q), the token's contribution to the divergence of the two distributions."""


def energies(
    values: Float32[Array, " m"], keys: Float64[Array, " m"], epsilon: float, complete: bool
) -> Float64[Array, " m"]:
    """Contribution of each point to the estimate of Σz² over the whole pass; `complete` if every token was drawn."""
    squares = np.square(values.astype(np.float64))
    if complete:
        return squares
    largest = keys.max()
    weights = np.square(np.square(np.abs(values.astype(np.float64)) + epsilon))
    return np.where(keys < largest, squares / -np.expm1(-weights * largest), 0)


def preferences(
    tokens: Int[Array, " f"], energy: Float64[Array, " f"], frequencies: Float64[Array, " v"]
) -> TokenPreference:
    """Tokens ranked by p log(p / q), those with p > q only; `frequencies` is q."""
    total = energy.sum()
    if total <= 0:
        nothing = np.empty(0)
        return TokenPreference(np.empty(0, dtype=np.int64), nothing, nothing, nothing)
    effective = total**2 / np.square(energy).sum()
    kinds, which = np.unique(tokens, return_inverse=True)
    share = np.bincount(which, weights=energy) / total
    usual = frequencies[kinds]
    share = (effective * share + PRIOR_TOKENS * usual) / (effective + PRIOR_TOKENS)
    lifts = share / usual
    above: Bool[Array, " v"] = lifts > 1
    contributions = share[above] * np.log(lifts[above])
    order = np.argsort(-contributions, kind="stable")
    kept = kinds[above][order].astype(np.int64)
    return TokenPreference(kept, share[above][order], lifts[above][order], contributions[order])


class Spellings(NamedTuple):
    """Groups of tokens that differ only by case or surrounding spaces."""

    group: Int64[Array, " v"]
    """The group of every token."""
    texts: list[str]
    """The name of every group: its most common member without surrounding spaces, shortened if it is very long."""
    frequencies: Float64[Array, " g"]


def spellings(vocabulary: list[bytes], frequencies: Float64[Array, " v"], *, fold_case: bool = True) -> Spellings:
    """Group a vocabulary that is ordered by frequency; `fold_case=False` keeps spellings of different case apart."""
    numbers: dict[str, int] = {}
    texts: list[str] = []
    group = np.empty(len(vocabulary), dtype=np.int64)
    for token, letters in enumerate(vocabulary):
        text = readable(letters)
        group[token] = numbers.setdefault(text.casefold() if fold_case else text, len(numbers))
        if group[token] == len(texts):
            texts.append(text if len(text) <= LONGEST_TOKEN else text[: LONGEST_TOKEN - 1] + ELLIPSIS)
    return Spellings(group, texts, np.bincount(group, weights=frequencies, minlength=len(texts)))


def readable(letters: bytes) -> str:
    """A token as a label shows it: without surrounding spaces, white space and parts of characters spelt out."""
    try:
        text = letters.decode()
    except UnicodeDecodeError:
        return "‹" + letters.hex(" ") + "›"
    if text.strip():
        return text.strip()
    return "".join(WHITE_SPACE.get(character, f"‹U+{ord(character):04X}›") for character in text)


class SignTokens(NamedTuple):
    """The tokens that a label names for one sign."""

    texts: list[str]
    share: float
    """Share of the latent's firing energy."""
    further: tuple[str, ...] = ()
    """The next best tokens, for a latent whose label another one has already."""

    def with_further(self, count: int) -> "SignTokens":
        """The same sign with so many more of its tokens; a mixed sign names those alone."""
        words = [text for text in self.texts if text not in (MIXED, ELLIPSIS)]
        named = [*words, *self.further[:count]]
        if not count or not named:
            return self
        return self._replace(texts=named if len(words) == len(self.texts) else [*named, ELLIPSIS])


def sign_tokens(preference: TokenPreference, before: TokenPreference, groups: Spellings, share: float) -> SignTokens:
    """The best tokens of a sign, preceded by the token that they follow if that one is more informative."""
    own = _best_tokens(preference, groups, share)
    if not len(before.tokens) or before.shares[0] < SMALLEST_SHARE_BEFORE:
        return own
    if len(preference.tokens) and before.contributions[0] <= preference.contributions[0]:
        return own
    followed = f"after {groups.texts[before.tokens[0]]}"
    if own.texts in ([], [MIXED]):
        return own._replace(texts=[followed])
    return own._replace(texts=[f"{followed}: {own.texts[0]}", *own.texts[1:]])


def _best_tokens(preference: TokenPreference, groups: Spellings, share: float) -> SignTokens:
    """Up to three tokens, none of them much weaker than the best."""
    broad = not len(preference.tokens) or preference.shares[0] < SMALLEST_SHARE
    if broad and (not len(preference.tokens) or preference.lifts[0] < SMALLEST_LIFT):
        further = tuple(groups.texts[token] for token in preference.tokens[:MOST_FURTHER])
        return SignTokens([MIXED] if share > 0 else [], share, further)
    strong = preference.contributions >= SMALLEST_PART * preference.contributions[0]
    named = int(strong[:MOST_TOKENS].sum())
    texts = [groups.texts[token] for token in preference.tokens[:named]]
    further = tuple(groups.texts[token] for token in preference.tokens[named : named + MOST_FURTHER])
    return SignTokens([*texts, ELLIPSIS] if broad else texts, share, further)


def label(positive: SignTokens, negative: SignTokens) -> str:
    """Both signs, "his · her ↔ they", or the one that matters; a minus marks a negative sign alone."""
    ups, downs = (" · ".join(sign.texts) if sign.share >= SMALLEST_SIGN else "" for sign in (positive, negative))
    if ups and downs:
        return f"{ups} ↔ {downs}"
    return ups or (f"− {downs}" if downs else "")


def distinct_labels(signs: list[tuple[SignTokens, SignTokens]], order: Int64[Array, " k"] | None = None) -> list[str]:
    """A label for every latent; one that another latent already has gets its next best words until it differs.

    Latents choose in the given order. Those that fire on nothing share the empty label, and those without further words
    keep theirs.
    """
    found = [""] * len(signs)
    taken: set[str] = set()
    for latent in range(len(signs)) if order is None else order.tolist():
        options = [label(*(sign.with_further(count) for sign in signs[latent])) for count in range(MOST_FURTHER + 1)]
        found[latent] = next((text for text in options if text not in taken), options[0])
        taken.add(found[latent])
    return found
