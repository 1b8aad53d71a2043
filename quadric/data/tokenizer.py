"""A tokenizer with the properties that the stream needs, and a fingerprint."""

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """Converts text to token ids and knows which ids are special tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.hf = tokenizer
        self.bos: int | None = tokenizer.bos_token_id
        self.separator: int | None = _document_separator(tokenizer)
        """Token that packing inserts between documents."""
        self.special = frozenset(tokenizer.all_special_ids)
        self.adds_bos = self.bos is not None and self.bos in tokenizer("a")["input_ids"]
        """Whether the tokenizer itself prepends a BOS token (Llama, Gemma: yes; Qwen, GPT-2: no)."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without added special tokens."""
        encoded = self.hf(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def decode(self, token: int) -> str:
        """The text of one token."""
        text: str = self.hf.decode([token])
        return text

    def token_bytes(self, tokens: list[int]) -> list[bytes]:
        """The bytes that each token stands for; a special token gives the bytes of its name.

        Bytes, because a token may be part of a multi-byte character. The joined bytes of consecutive tokens decode to
        the text, apart from a leading space that some tokenizers add.
        """
        pieces = self.hf.convert_ids_to_tokens(tokens)
        return [
            # The vocabulary of a model is often padded: tokens beyond the tokenizer's have no name.
            f"<token {token}>".encode()
            if piece is None
            else piece.encode()
            if token in self._named
            else self._spelling(piece)
            for token, piece in zip(tokens, pieces, strict=True)
        ]

    # Both once: the rules of a tokenizer are megabytes of JSON.

    @cached_property
    def _spelling(self) -> Callable[[str], bytes]:
        backend = getattr(self.hf, "backend_tokenizer", None)
        return _spelling(json.loads(backend.to_str()) if backend is not None else {})

    @cached_property
    def _named(self) -> frozenset[int]:
        """Tokens that stand for their own names."""
        return self.special | set(self.hf.get_added_vocab().values())

    def fingerprint(self) -> str:
        """Hash of vocabulary, merges, normalization and special tokens."""
        if getattr(self.hf, "is_fast", False):
            rules = json.loads(self.hf.backend_tokenizer.to_str())
            # The padding and truncation of the last call are stored here too, but are not part of the tokenizer.
            rules = {key: value for key, value in rules.items() if key not in ("padding", "truncation")}
        else:
            rules = self.hf.get_vocab()
        identity = {
            "rules": rules,
            "special": {key: str(value) for key, value in self.hf.special_tokens_map.items()},
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, ensure_ascii=False).encode())
        return f"sha256:{digest.hexdigest()}"


def _document_separator(tokenizer: Any) -> int | None:
    """The token between documents in the model's training data: `<|endoftext|>` where it exists, else EOS.

    EOS is only the second choice, because the EOS of a chat model ends a turn.
    """
    end_of_text = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    if end_of_text is not None and end_of_text in tokenizer.all_special_ids:
        return int(end_of_text)
    eos: int | None = tokenizer.eos_token_id
    return eos


def _spelling(rules: dict[str, Any]) -> Callable[[str], bytes]:
    """How a tokenizer spells bytes in its vocabulary: GPT-2's byte alphabet, or SentencePiece's ▁ and <0xNN>."""
    parts = [*_parts(rules.get("decoder")), *_parts(rules.get("pre_tokenizer"))]
    return _from_byte_alphabet if any(part.get("type") == "ByteLevel" for part in parts) else _from_sentencepiece


def _parts(rule: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A component of a tokenizer, followed by its nested components."""
    if not rule:
        return []
    nested = rule.get("decoders") or rule.get("pretokenizers") or []
    return [rule, *(part for component in nested for part in _parts(component))]


def _from_byte_alphabet(piece: str) -> bytes:
    alphabet = _byte_alphabet()
    if any(character not in alphabet for character in piece):
        return piece.encode()  # a token added as plain text
    return bytes(alphabet[character] for character in piece)


def _from_sentencepiece(piece: str) -> bytes:
    if match := BYTE_TOKEN.fullmatch(piece):
        return bytes([int(match[1], 16)])
    return piece.replace("\u2581", " ").encode()


@cache
def _byte_alphabet() -> dict[str, int]:
    """Byte of each character in GPT-2's alphabet: printable Latin-1 stands for itself, other bytes start at U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
