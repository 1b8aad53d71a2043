"""Tokens by which the effect of a latent is measured, from its evidence.

A latent in the middle of a model that fires on a token need not make the model predict that token: it may as well help
to predict what comes next. So there are two sets, the tokens on which it fires, and those that follow them in the text.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from quadric.data.tokenizer import Tokenizer
from quadric.evidence import Evidence
from quadric.evidence.record import NEGATIVE, POSITIVE

N_FOLLOWING = 12


class LatentTokens(NamedTuple):
    """Ids in the vocabulary of the language model."""

    own: list[int]
    """Tokens on which the latent fires: those most over-represented in its energy."""
    following: list[int]
    """Tokens whose share among the next tokens exceeds their share of the text most."""


def latent_tokens(evidence: Evidence, latent: int, tokenizer: Tokenizer, n_vocabulary: int, to: float) -> LatentTokens:
    """The tokens of one latent, of the side of its value at rest on which `to` lies.

    Args:
        evidence: Of the dictionary.
        latent: Its index.
        tokenizer: Of the language model.
        n_vocabulary: Size of its vocabulary.
        to: A value of z, with the sign of the weights.

    Returns:
        Both sets.
    """
    shown = float(evidence.calibration.signs[latent]) * to
    side = POSITIVE if shown >= float(evidence.calibration.rest[latent]) else NEGATIVE
    ids = {spelling: token for token, spelling in enumerate(tokenizer.token_bytes(list(range(n_vocabulary))))}
    fired_on = [token for token in evidence.statistics.lift_tokens[latent, side].tolist() if token >= 0]

    def in_model(tokens: list[int]) -> list[int]:
        spellings = [evidence.text.vocabulary[token] for token in tokens]
        return [ids[each] for each in spellings if each in ids]

    found = LatentTokens(in_model(fired_on), in_model(following_tokens(evidence, latent, side)))
    if not found.own or not found.following:
        raise ValueError(
            f"the evidence knows no token on which latent {latent} fires "
            f"{'above' if side == POSITIVE else 'below'} its value at rest; choose another latent or value"
        )
    return found


def following_tokens(evidence: Evidence, latent: int, side: int) -> list[int]:
    """Indices into the evidence's vocabulary, by excess of their share after the latent's points; within a sequence."""
    places, values = evidence.points.places[latent], evidence.points.values[latent]
    above = values >= evidence.calibration.rest[latent]
    chosen = places[(places >= 0) & (above if side == POSITIVE else ~above)]
    text = evidence.text.token_ids
    following = chosen[(chosen + 1 < len(text)) & ~np.isin(chosen + 1, evidence.text.sequence_starts)] + 1
    counts = Counter(text[following].tolist())
    common = np.bincount(text, minlength=len(evidence.text.vocabulary)) / len(text)
    excess = {token: count / len(following) - common[token] for token, count in counts.items()}
    ranked = sorted(excess, key=lambda token: -excess[token])
    return [token for token in ranked[:N_FOLLOWING] if excess[token] > 0]
