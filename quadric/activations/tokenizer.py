"""A tokenizer with the few things the stream needs to know of it, and a fingerprint of all of it."""

import hashlib
import json
from typing import Any


class Tokenizer:
    """Text to token ids, and which of those ids are not text."""

    def __init__(self, tokenizer: Any) -> None:
        self.hf = tokenizer
        self.bos: int | None = tokenizer.bos_token_id
        self.separator: int | None = _document_separator(tokenizer)
        """What packing puts between documents."""
        self.special = frozenset(tokenizer.all_special_ids)
        self.adds_bos = self.bos is not None and self.bos in tokenizer("a")["input_ids"]
        """Whether the tokenizer itself puts a BOS before a text (Llama, Gemma: yes; Qwen, GPT-2: no)."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, nothing added."""
        encoded: list[list[int]] = self.hf(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)[
            "input_ids"
        ]
        return encoded

    def decode(self, token: int) -> str:
        """The text of one token."""
        text: str = self.hf.decode([token])
        return text

    def fingerprint(self) -> str:
        """Hash of vocabulary, merges, normalisation and special tokens."""
        if getattr(self.hf, "is_fast", False):
            rules = json.loads(self.hf.backend_tokenizer.to_str())
            # How the last call padded or truncated is kept there too, and says nothing about the tokenizer.
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
    """What stood between documents when the model was trained: `<|endoftext|>` where it exists, else EOS.

    A chat model's EOS ends a turn instead, which is why EOS is only the second choice.
    """
    end_of_text = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    if end_of_text is not None and end_of_text in tokenizer.all_special_ids:
        return int(end_of_text)
    eos: int | None = tokenizer.eos_token_id
    return eos
