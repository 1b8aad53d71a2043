"""Fingerprints identify tokenizers, and special tokens are recognized."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from quadric.data.models import find_model, load_shape
from quadric.data.tokenizer import Tokenizer
from tests.data.tiny import tiny_tokenizer


def test_encoding_adds_nothing() -> None:
    tokenizer = Tokenizer(tiny_tokenizer(adds_bos=True))
    (tokens,) = tokenizer.encode(["abc"])
    assert len(tokens) == 3
    assert [tokenizer.decode(token) for token in tokens] == ["a", "b", "c"]


def test_adds_bos_is_detected() -> None:
    assert Tokenizer(tiny_tokenizer(adds_bos=True)).adds_bos
    assert not Tokenizer(tiny_tokenizer(adds_bos=False)).adds_bos


def test_documents_are_separated_by_end_of_text_where_it_exists_else_by_eos() -> None:
    chat = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer, eos_token="<bos>")
    assert Tokenizer(chat).separator == 1  # <|endoftext|> is an ordinary token there
    chat.add_special_tokens({"unk_token": "<|endoftext|>"})
    assert Tokenizer(chat).separator == 0
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer)
    assert Tokenizer(bare).separator is None


def test_the_fingerprint_survives_saving_and_does_not_depend_on_earlier_calls(tmp_path: Path) -> None:
    original = tiny_tokenizer()
    original.pad_token = "<|endoftext|>"
    fingerprint = Tokenizer(original).fingerprint()
    original(["a", "abcdef"], padding="max_length", max_length=9, truncation=True)
    assert Tokenizer(original).fingerprint() == fingerprint
    original.save_pretrained(tmp_path)
    assert Tokenizer(AutoTokenizer.from_pretrained(tmp_path)).fingerprint() == fingerprint


def test_the_fingerprint_changes_with_vocabulary_special_tokens_and_template() -> None:
    fingerprints = {Tokenizer(tiny_tokenizer()).fingerprint(), Tokenizer(tiny_tokenizer(adds_bos=True)).fingerprint()}
    larger = tiny_tokenizer()
    larger.add_tokens(["extra"])
    fingerprints.add(Tokenizer(larger).fingerprint())
    other_eos = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer, eos_token="<bos>")
    fingerprints.add(Tokenizer(other_eos).fingerprint())
    assert len(fingerprints) == 4


def test_token_bytes_join_to_the_text_even_where_characters_span_tokens() -> None:
    tokenizer = Tokenizer(tiny_tokenizer())
    (tokens,) = tokenizer.encode(["naïve – 漢字\n"])
    assert b"".join(tokenizer.token_bytes(tokens)).decode() == "naïve – 漢字\n"
    assert tokenizer.token_bytes([0, 1]) == [b"<|endoftext|>", b"<bos>"]


def test_token_bytes_of_every_byte_are_that_byte() -> None:
    tokenizer = Tokenizer(tiny_tokenizer())
    assert {letters[0] for letters in tokenizer.token_bytes(list(range(2, 258)))} == set(range(256))


@pytest.mark.slow  # converts the embedded model on first use
def test_token_bytes_of_the_embedded_model_join_to_the_text() -> None:
    tokenizer = load_shape(find_model("smollm2")).tokenizer
    text = "The cat’s naïve 漢字 \U0001f600\n\tindented, twice  spaced"
    (tokens,) = tokenizer.encode([text])
    assert b"".join(tokenizer.token_bytes(tokens)).decode() == text
    assert tokenizer.token_bytes([tokenizer.separator]) == [b"<|endoftext|>"]


def test_token_bytes_of_sentencepiece_tokens() -> None:
    backend = Backend(models.Unigram([("<unk>", 0.0), ("▁the", -1.0), ("<0xE6>", -2.0), ("é", -2.0)], unk_id=0))
    backend.decoder = decoders.Metaspace()
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>"))
    assert tokenizer.token_bytes([0, 1, 2, 3]) == [b"<unk>", b" the", b"\xe6", "é".encode()]
