"""A text reaches the dictionary as its training text did."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadric import BilinearAutoencoder
from quadric.data import forward
from quadric.data.forward import capture
from quadric.data.hook_points import parse_hook_point
from quadric.data.tokenizer import Tokenizer
from quadric.explanations import Explainer
from quadric.explanations.reading import LONGEST_TEXT, TextReader, check_text, words_of
from quadric.model import Provenance
from tests.data.tiny import D_MODEL, N_LAYERS, tiny_model, tiny_tokenizer

RULES = {"prepend_bos": "never", "bos": "drop", "special_tokens": "drop", "outliers": "drop", "outlier_factor": 10.0}


def reader(packing: str | None = "packed", adds_bos: bool = False, **rules: object) -> TextReader:
    made_by = Provenance(hook_point="resid_pre.2", packing=packing, block_length=16, token_rules={**RULES, **rules})
    ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=8, prior="atomic", provenance=made_by)
    return TextReader(tiny_model(adds_bos=adds_bos), ae)


def alone(reader: TextReader, ids: list[int]) -> torch.Tensor:
    point = parse_hook_point("resid_pre.2", N_LAYERS)
    return capture(reader.model, [point], torch.tensor([ids]))["resid_pre.2"][0]


def test_a_packed_dictionary_reads_the_text_after_the_separator() -> None:
    found = reader()
    (reading,) = found.read(["word"])
    assert reading.words == list("word")
    assert reading.dropped == [None] * 4
    ids = [found.model.tokenizer.separator, *reading.token_ids]
    torch.testing.assert_close(reading.vectors, alone(found, ids)[1:])


def test_others_read_it_after_bos_or_after_nothing() -> None:
    found = reader("packed", adds_bos=True, prepend_bos="always")
    (reading,) = found.read(["word"])
    torch.testing.assert_close(reading.vectors, alone(found, [1, *reading.token_ids])[1:])
    found = reader("separate")
    (reading,) = found.read(["word"])
    torch.testing.assert_close(reading.vectors, alone(found, reading.token_ids))


def test_a_token_before_the_text_that_the_rules_keep_is_not_part_of_it() -> None:
    found = reader(adds_bos=True, prepend_bos="always", bos="keep", special_tokens="keep")
    (reading,) = found.read(["word"])
    assert len(reading.vectors) == len(reading.words) == 4
    torch.testing.assert_close(reading.vectors, alone(found, [1, *reading.token_ids])[1:])


def test_only_the_end_of_a_text_is_read_if_asked() -> None:
    found = reader()
    whole, short = found.read(["a few words", "end"], last_tokens=5, sequences=1)
    (end,) = found.read(["words"])
    assert whole.words == list("words")
    torch.testing.assert_close(whole.vectors, end.vectors)
    assert short.words == list("end")


def test_a_long_text_continues_in_further_blocks() -> None:
    found, text = reader(), "abcdefghijklmnopqrstuvwxyz"
    (reading,) = found.read([text])
    assert reading.n_blocks == 2
    assert "".join(reading.words) == text
    second = [0, *reading.token_ids[15:]]
    torch.testing.assert_close(reading.vectors[15:], alone(found, second)[1:], rtol=1e-4, atol=1e-4)


def test_texts_of_a_batch_are_read_as_if_alone() -> None:
    found = reader()
    texts = ["a", "some words", "x" * 40, *(f"text {number}" for number in range(9))]
    for reading, text in zip(found.read(texts), texts, strict=True):
        (lone,) = found.read([text])
        assert (reading.text, reading.words, reading.dropped) == (text, lone.words, lone.dropped)
        torch.testing.assert_close(reading.vectors, lone.vectors, rtol=1e-4, atol=1e-4)


def test_texts_of_similar_length_share_a_pass_and_no_pass_is_larger_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, passes = reader(), list[torch.Tensor]()

    def counted(model: object, points: object, tokens: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        passes.append(mask)
        return capture(found.model, [found.point], tokens, mask)

    monkeypatch.setattr("quadric.explanations.reading.capture", counted)
    monkeypatch.setattr(forward, "PASS_COST", 4)
    texts = ["ab", "x" * 14, "cd", "y" * 14, "ef", "z" * 14]
    assert [each.text for each in found.read(texts, sequences=2)] == texts
    assert all(len(mask) <= 2 and bool(mask.all()) for mask in passes)
    assert [mask.shape[1] for mask in passes] == [3, 3, 15, 15]


def test_special_tokens_and_sinks_are_named_and_left_out() -> None:
    found = reader()
    (reading,) = found.read(["a<|endoftext|>b"])
    assert reading.dropped == [None, "special token", None]
    assert reading.kept == [0, 2]
    assert len(reading.vectors) == 2
    found = reader(outlier_factor=1.0001)
    (reading,) = found.read(["some words"])
    assert "attention sink" in reading.dropped
    assert len(reading.vectors) == reading.dropped.count(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text 0 is empty"),
        ("a\ud800", "not valid Unicode"),
        ("x" * (LONGEST_TEXT + 1), "has 50,001 tokens"),
    ],
)
def test_what_is_no_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reader().read([text])


def test_what_is_no_string_is_named() -> None:
    with pytest.raises(ValueError, match="text 3 is a int; give a string"):
        check_text(7, 3)


def test_a_dictionary_of_rows_has_no_text_to_read() -> None:
    with pytest.raises(ValueError, match="does not record a layer"):
        TextReader(tiny_model(), BilinearAutoencoder(d_model=D_MODEL, n_latents=8, prior="atomic"))


@given(st.text(min_size=1, max_size=30))
def test_words_join_to_the_text_whatever_it_is(text: str) -> None:
    tokenizer = Tokenizer(tiny_tokenizer())  # one token per byte: every character beyond ASCII is split
    (ids,) = tokenizer.encode([text])
    assert "".join(words_of(tokenizer, ids)) == text


def test_bytes_that_are_no_character_are_shown_as_such() -> None:
    tokenizer = Tokenizer(tiny_tokenizer())
    (ids,) = tokenizer.encode(["é!"])
    assert words_of(tokenizer, ids) == ["é", "", "!"]
    assert words_of(tokenizer, ids[1:]) == ["⟨A9⟩", "!"]


def test_coordinates_and_values_are_those_of_the_site(explainer: Explainer) -> None:
    """The text of the evidence, read again, gives the evidence's own points."""
    evidence = explainer.evidence
    assert evidence is not None
    text = evidence.text
    latent, start = 5, int(text.sequence_starts[0])
    end = int(text.sequence_starts[1])
    letters = b"".join(text.vocabulary[token] for token in text.token_ids[start:end])
    assert b"<|endoftext|>" not in letters[:20]
    found = TextReader(explainer.reader.model, explainer.autoencoder)
    found.first, found.block_length = None, 32  # a block of the corpus began without a separator
    (reading,) = found.read([letters.decode()])
    values = explainer.values(reading.vectors)[:, latent]
    coordinates = explainer.coordinates(reading, latent, 6)
    place_of = {start + place: row for row, place in enumerate(reading.kept)}
    seen = 0
    for point, place in enumerate(evidence.points.places[latent].tolist()):
        if place in place_of:
            seen += 1
            assert evidence.points.values[latent, point] == pytest.approx(values[place_of[place]], rel=1e-3, abs=1e-4)
            row, points = place_of[place], evidence.points
            np.testing.assert_allclose(points.coordinates[latent, point], coordinates.axes[row], rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(points.control[latent, point], coordinates.control[row], rtol=1e-3, atol=1e-4)
            assert points.linear[latent, point] == pytest.approx(coordinates.linear[row], rel=1e-3, abs=1e-4)
    assert seen > 0
