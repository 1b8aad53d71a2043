"""A text through the language model, as the dictionary's own training text was read.

Training text is packed: a document follows the separator of the document before it. A text alone would begin with the
token at position 0, which becomes the model's attention sink: its activation is the same whatever the token is, and the
rules drop it. So the separator goes before the text, unless the dictionary's text has a BOS token there anyway, or was
not packed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.data import LanguageModel, TokenRules
from quadric.data.corpus.blocks import Block
from quadric.data.forward import capture, check_hook_points, length_groups, pass_cost
from quadric.data.hook_points import HookPoint, parse_hook_point
from quadric.data.live_stream import padded
from quadric.data.token_rules import keep_tokens
from quadric.data.tokenizer import Tokenizer
from quadric.model import Dictionary

SEQUENCES_AT_ONCE = 8
LONGEST_TEXT = 50_000
"""Tokens of one text."""
DEFAULT_BLOCK = 256
SPECIAL, SINK = "special token", "attention sink"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """The tokens of one text, and the activations of those that the rules keep."""

    text: str
    token_ids: list[int]
    words: list[str]
    """Text of every token; a character of several tokens belongs to the first of them."""
    dropped: list[str | None]
    """Why a token has no activation: None where it has one."""
    vectors: Float[Tensor, "m d"]
    """Activations of the kept tokens, in order, float32."""
    n_blocks: int
    """Sequences in which the text was read; a block does not see the text before it."""

    @property
    def kept(self) -> list[int]:
        """Indices of the tokens that have an activation."""
        return [place for place, why in enumerate(self.dropped) if why is None]


class TextReader:
    """Reads texts at the hook point of a dictionary, which records it, the token rules and how its text was packed."""

    def __init__(self, model: LanguageModel, autoencoder: Dictionary) -> None:
        known = autoencoder.provenance
        if known.hook_point is None:
            raise ValueError(
                "the autoencoder does not record a layer of a language model, since it was trained on rows; train it "
                "with quadric train, or on the result of quadric.harvest"
            )
        self.model = model
        self.point: HookPoint = parse_hook_point(known.hook_point, model.n_layers)
        check_hook_points(model, [self.point])
        own = {field.name for field in fields(TokenRules)}
        self.rules = TokenRules(**{name: value for name, value in (known.token_rules or {}).items() if name in own})
        self.block_length = known.block_length or DEFAULT_BLOCK
        bos = self.rules.bos_of(model.tokenizer)
        self.first = bos if bos is not None or known.packing == "separate" else model.tokenizer.separator
        """Token before every block."""

    def read(
        self, texts: Sequence[str], *, last_tokens: int | None = None, sequences: int = SEQUENCES_AT_ONCE
    ) -> list[Reading]:
        """Run the language model over some texts, at most `sequences` at once; those of similar length together.

        `last_tokens` reads only so many tokens at the end of each text.
        """
        encoded = [ids if last_tokens is None else ids[-last_tokens:] for ids in self._encoded(texts)]
        blocks = [block for number, ids in enumerate(encoded) for block in self._blocks(number, ids)]
        rows: dict[int, _Row] = {}
        for group in length_groups([len(each.tokens) for each in blocks], pass_cost(self.model.device), sequences):
            rows |= zip(group.places, self._run([blocks[place] for place in group.places]), strict=True)
        by_text: list[list[_Row]] = [[] for _ in texts]
        for place, block in enumerate(blocks):
            by_text[block.documents[0]].append(rows[place])
        return [self._reading(*parts) for parts in zip(texts, encoded, by_text, strict=True)]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        for number, text in enumerate(texts):
            check_text(text, number)
        encoded = self.model.tokenizer.encode(list(texts))
        for number, ids in enumerate(encoded):
            if not 0 < len(ids) <= LONGEST_TEXT:
                raise ValueError(
                    f"text {number} has {len(ids):,} tokens; give 1 to {LONGEST_TEXT:,}, and split longer ones"
                )
        return encoded

    def _blocks(self, number: int, ids: list[int]) -> Iterator[Block]:
        before = [] if self.first is None else [self.first]
        span = max(1, self.block_length - len(before))
        for start in range(0, len(ids), span):
            tokens = before + ids[start : start + span]
            yield Block(tokens, [number] * len(tokens))

    def _run(self, some: list[Block]) -> Iterator["_Row"]:
        sequences = padded(some, 0, self.model.device)
        found = capture(self.model, [self.point], sequences.tokens, sequences.mask)
        kept = keep_tokens(found, sequences, self.rules, self.model.tokenizer)
        (vectors,) = (each.cpu() for each in kept.activations.values())
        parts = torch.split(vectors, kept.mask.sum(1).tolist())
        for block, keep, own in zip(some, kept.mask.cpu(), parts, strict=True):
            skipped = int(self.first is not None)
            own = own[int(keep[:skipped].sum()) :]  # the token before the text may be kept; it is not part of it
            yield _Row(keep[skipped : len(block.tokens)].tolist(), own)

    def _reading(self, text: str, ids: list[int], rows: list["_Row"]) -> Reading:
        keep = [each for row in rows for each in row.keep]
        special = self.model.tokenizer.special
        return Reading(
            text=text,
            token_ids=ids,
            words=words_of(self.model.tokenizer, ids),
            dropped=[
                None if kept else SPECIAL if token in special else SINK for token, kept in zip(ids, keep, strict=True)
            ],
            vectors=torch.cat([row.vectors for row in rows]),
            n_blocks=len(rows),
        )


class _Row(NamedTuple):
    """One sequence without the token before it."""

    keep: list[bool]
    vectors: Tensor


def check_text(text: object, number: int = 0) -> None:
    """Raise unless this is a text that can be tokenized."""
    if not isinstance(text, str):
        raise ValueError(f"text {number} is a {type(text).__name__}; give a string")
    if not text:
        raise ValueError(f"text {number} is empty; give at least one word")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"text {number} is not valid Unicode (half of a surrogate pair); give it as UTF-8")


def words_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """The text of every token, decoded together: a character of several tokens belongs to the first of them."""
    pieces = tokenizer.token_bytes(ids)
    owners = [place for place, piece in enumerate(pieces) for _ in piece]
    words = [""] * len(ids)
    at = 0
    # Bytes that are no character come back one by one, as surrogates.
    for character in b"".join(pieces).decode("utf-8", errors="surrogateescape"):
        is_byte = "\ud800" <= character <= "\udfff"
        words[owners[at]] += f"⟨{ord(character) - 0xDC00:02X}⟩" if is_byte else character
        at += 1 if is_byte else len(character.encode())
    return words
