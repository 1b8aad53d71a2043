"""A tokenizer's fingerprint is its own, and its special tokens are told apart."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from quadric.activations.tokenizer import Tokenizer
from tests.activations.tiny import tiny_tokenizer


def test_encoding_adds_nothing() -> None:
    tokenizer = Tokenizer(tiny_tokenizer(adds_bos=True))
    (tokens,) = tokenizer.encode(["abc"])
    assert len(tokens) == 3
    assert [tokenizer.decode(token) for token in tokens] == ["a", "b", "c"]


def test_whether_the_tokenizer_adds_a_bos_is_seen() -> None:
    assert Tokenizer(tiny_tokenizer(adds_bos=True)).adds_bos
    assert not Tokenizer(tiny_tokenizer(adds_bos=False)).adds_bos


def test_documents_are_separated_by_end_of_text_where_it_exists_else_by_eos() -> None:
    chat = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer, eos_token="<bos>")
    assert Tokenizer(chat).separator == 1  # <|endoftext|> is an ordinary token there
    chat.add_special_tokens({"unk_token": "<|endoftext|>"})
    assert Tokenizer(chat).separator == 0
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer)
    assert Tokenizer(bare).separator is None


def test_the_fingerprint_survives_a_round_trip_and_what_was_encoded(tmp_path: Path) -> None:
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
