"""Places of tokens, and hashes of the text around them."""

import numpy as np
import pytest

from quadric.evidence.places import place_of, position_of, sequence_of, splitmix, text_read, window_hashes
from tests.evidence.streams import LENGTH, RandomText


def test_windows_are_told_apart_by_their_tokens_and_by_the_ends_of_sequences() -> None:
    text = RandomText(2)
    text.tokens[:] = 0
    text.tokens[1, 10] = 1
    positions = np.arange(20)
    first, second = (window_hashes(text, np.full(20, number), positions, 2) for number in (0, 1))
    assert len(set(first.tolist())) == 5  # two at each end, and the middle
    np.testing.assert_array_equal(first == second, np.abs(positions - 10) > 2)


def test_places_hold_sequence_and_position() -> None:
    sequences, positions = np.array([0, 3, 10**9]), np.array([5, 0, 2**20 - 1])
    places = place_of(sequences, positions)
    np.testing.assert_array_equal(sequence_of(places), sequences)
    np.testing.assert_array_equal(position_of(places), positions)


@pytest.mark.parametrize("window", [0, 1, 4, 30])
def test_hashes_are_those_of_each_window_alone(window: int) -> None:
    text = RandomText(4)
    generator = np.random.default_rng(1)
    sequences = generator.integers(0, 4, 50)
    positions = generator.integers(0, LENGTH, 50)
    found = window_hashes(text, sequences, positions, window)
    for sequence, position, value in zip(sequences, positions, found, strict=True):
        own = np.zeros((), dtype=np.uint64)
        for place in range(position - window, position + window + 1):
            token = int(text.tokens[sequence, place]) + 1 if 0 <= place < LENGTH else 0
            own = splitmix(np.asarray(own ^ np.uint64(token)))
        assert own == value


def test_text_is_numbered_by_frequency_and_indexed_by_place() -> None:
    text = RandomText(5)
    numbered = text_read(text, np.array([1, 3]))
    letters = b"".join(numbered.read.vocabulary[token] for token in numbered.read.token_ids)
    assert letters == b"".join(bytes([97 + token]) for token in text.tokens[[1, 3]].ravel())
    places = np.array([[place_of(np.array([3]), np.array([2]))[0], -1]])
    assert numbered.indices_of(places).tolist() == [[LENGTH + 2, -1]]
