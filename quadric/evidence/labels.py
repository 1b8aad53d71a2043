"""Short names for latents, made offline from the tokens that each sign prefers."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from quadric.evidence.token_energy import TokenPreference

Array = np.ndarray

METHOD = (
    "tokens by p·log(p/q): p the share of Σz² over the sign's firing tokens, drawn towards q as if by 10 tokens; "
    "q the share of all tokens scored; spellings that differ by case or spaces counted together; "
    "'after X' where the token before is X in over half of Σz² and says more by the same measure"
)
MOST_TOKENS = 3
SMALLEST_PART = 0.2
"""Of the best token's contribution, below which a token is left out of a label."""
SMALLEST_SHARE = 0.03
"""Of the firing energy; a sign whose best token has less prefers many tokens, and its label ends in an ellipsis."""
SMALLEST_LIFT = 5.0
"""Of the best token of such a sign, below which it prefers nothing in particular and is called mixed."""
SMALLEST_SIGN = 0.1
"""Share of the firing energy below which a sign is left out of a label."""
SMALLEST_SHARE_BEFORE = 0.5
"""Of the firing energy that follows one and the same token, from which on a label may name that token."""
MIXED = "mixed"
ELLIPSIS = "…"
WHITE_SPACE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}


class Spellings(NamedTuple):
    """Tokens that differ by case or surrounding spaces only, under one number."""

    group: Int64[Array, " v"]
    """Of every token."""
    texts: list[str]
    """Of every group: its commonest member, spaces stripped."""
    frequencies: Float64[Array, " g"]


def spellings(vocabulary: list[bytes], frequencies: Float64[Array, " v"]) -> Spellings:
    """Group a vocabulary that is ordered by frequency."""
    numbers: dict[str, int] = {}
    texts: list[str] = []
    group = np.empty(len(vocabulary), dtype=np.int64)
    for token, letters in enumerate(vocabulary):
        text = readable(letters)
        group[token] = numbers.setdefault(text.casefold(), len(numbers))
        if group[token] == len(texts):
            texts.append(text)
    return Spellings(group, texts, np.bincount(group, weights=frequencies, minlength=len(texts)))


def readable(letters: bytes) -> str:
    """A token as a label shows it: spaces stripped, white space and parts of characters spelt out."""
    try:
        text = letters.decode()
    except UnicodeDecodeError:
        return "‹" + letters.hex(" ") + "›"
    if text.strip():
        return text.strip()
    return "".join(WHITE_SPACE.get(character, f"‹U+{ord(character):04X}›") for character in text)


class SignTokens(NamedTuple):
    """What a label says of one sign."""

    texts: list[str]
    share: float
    """Of the latent's firing energy."""


def sign_tokens(preference: TokenPreference, before: TokenPreference, groups: Spellings, share: float) -> SignTokens:
    """The best tokens of a sign, after the token that they follow if that one tells more than they do."""
    own = _best_tokens(preference, groups, share)
    if not len(before.tokens) or before.shares[0] < SMALLEST_SHARE_BEFORE:
        return own
    if len(preference.tokens) and before.contributions[0] <= preference.contributions[0]:
        return own
    followed = f"after {groups.texts[before.tokens[0]]}"
    if own.texts in ([], [MIXED]):
        return SignTokens([followed], share)
    return SignTokens([f"{followed}: {own.texts[0]}", *own.texts[1:]], share)


def _best_tokens(preference: TokenPreference, groups: Spellings, share: float) -> SignTokens:
    """Up to three tokens, none far weaker than the best."""
    broad = not len(preference.tokens) or preference.shares[0] < SMALLEST_SHARE
    if broad and (not len(preference.tokens) or preference.lifts[0] < SMALLEST_LIFT):
        return SignTokens([MIXED] if share > 0 else [], share)
    strong = preference.contributions >= SMALLEST_PART * preference.contributions[0]
    texts = [groups.texts[token] for token in preference.tokens[strong][:MOST_TOKENS]]
    return SignTokens([*texts, ELLIPSIS] if broad else texts, share)


def label(positive: SignTokens, negative: SignTokens) -> str:
    """Both signs side by side, "his · her ↔ they", or the one that matters; a minus marks a negative one alone."""
    ups, downs = (" · ".join(sign.texts) if sign.share >= SMALLEST_SIGN else "" for sign in (positive, negative))
    if ups and downs:
        return f"{ups} ↔ {downs}"
    return ups or (f"− {downs}" if downs else "")
