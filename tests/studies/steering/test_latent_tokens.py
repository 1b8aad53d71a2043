"""Tokens of a latent against a count by hand."""

from collections import Counter

import numpy as np
import pytest

from quadric.studies.steering.latent_tokens import following_tokens, latent_tokens
from tests.studies.steering.conftest import Steerable


def test_following_tokens_against_a_count(steerable: Steerable) -> None:
    evidence, latent = steerable.evidence, 3
    text, starts = evidence.text.token_ids, set(evidence.text.sequence_starts.tolist())
    rest = float(evidence.calibration.rest[latent])
    for side, above in ((0, True), (1, False)):
        following = [
            int(text[place + 1])
            for place, value in zip(evidence.points.places[latent], evidence.points.values[latent], strict=True)
            if place >= 0 and (value >= rest) == above and place + 1 < len(text) and place + 1 not in starts
        ]
        excess = {token: n / len(following) - np.mean(text == token) for token, n in Counter(following).items()}
        found = following_tokens(evidence, latent, side)
        expected = sorted((value for value in excess.values() if value > 0), reverse=True)[:12]
        assert np.allclose([excess[token] for token in found], expected)


def test_ids_are_those_of_the_model(steerable: Steerable) -> None:
    evidence = steerable.evidence
    tokenizer = steerable.model.tokenizer
    found = latent_tokens(evidence, 3, tokenizer, len(tokenizer.hf), 1e9 * float(evidence.calibration.signs[3]))
    lifted = [evidence.text.vocabulary[token] for token in evidence.statistics.lift_tokens[3, 0] if token >= 0]
    assert [tokenizer.decode(token).encode() for token in found.own] == lifted
    with pytest.raises(ValueError, match="no token on which latent 3 fires above"):
        latent_tokens(evidence, 3, tokenizer, 2, 1e9 * float(evidence.calibration.signs[3]))
