"""Activations of the language model at the words of a concept, and at the tokens of a corpus."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric.data import LanguageModel, TokenRules
from quadric.data.forward import capture
from quadric.data.hook_points import HookPoint
from quadric.data.live_stream import LiveStream
from quadric.data.tokenizer import Tokenizer
from quadric.evidence.concepts.words import Concept


class CorpusTokens(NamedTuple):
    """Activations of corpus tokens, keyed by hook point, and which of them end a word of each concept."""

    vectors: dict[str, Tensor]
    """(n, d) each."""
    is_word: Bool[Tensor, "c n"]


def concept_vectors(
    model: LanguageModel, points: list[HookPoint], rules: TokenRules, concept: Concept
) -> dict[str, Float[Tensor, "b w d"]]:
    """Activations of the last token of every word after every prompt, in float64, keyed by hook point.

    They have their own length, which some dictionaries of other libraries read.
    """
    found = [_read(model, points, rules, sentences) for sentences in concept.sentences()]
    return {name: torch.stack([vectors[name] for vectors in found]) for name in found[0]}


def _read(
    model: LanguageModel, points: list[HookPoint], rules: TokenRules, sentences: list[str]
) -> dict[str, Float[Tensor, "w d"]]:
    bos = rules.bos_of(model.tokenizer)
    ids = [[*([] if bos is None else [bos]), *each] for each in model.tokenizer.encode(sentences)]
    lengths = torch.tensor([len(each) for each in ids])
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in ids], batch_first=True)
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    found = capture(model, points, tokens.to(model.device), mask.to(model.device))
    rows = torch.arange(len(ids))
    return {name: vectors[rows, lengths - 1].double().cpu() for name, vectors in found.items()}


def corpus_vectors(stream: LiveStream, concepts: list[Concept], n_tokens: int) -> CorpusTokens:
    """The first kept tokens of a corpus, fewer if it is shorter."""
    words = [word_tokens(stream.model.tokenizer, concept) for concept in concepts]
    vectors: dict[str, list[Tensor]] = {name: [] for name in stream.hook_points}
    is_word, done = [], 0
    for forward in stream.passes():
        batch = forward.batch
        for name, rows in batch.activations.items():
            vectors[name].append(rows.double().cpu())
        place = (batch.sequences - forward.sequences.first, batch.positions)
        is_word.append(torch.stack([ends_with(forward.sequences.tokens, each)[place] for each in words]).cpu())
        done += len(batch)
        if done >= n_tokens:
            break
    together = {name: torch.cat(parts)[:n_tokens] for name, parts in vectors.items()}
    return CorpusTokens(together, torch.cat(is_word, dim=1)[:, :n_tokens])


def word_tokens(tokenizer: Tokenizer, concept: Concept) -> list[list[int]]:
    """The tokens of every word inside a sentence."""
    beginning = concept.beginnings[0]
    n_before = len(tokenizer.encode([beginning])[0])
    return [ids[n_before:] for ids in tokenizer.encode([f"{beginning} {word}" for word in concept.words])]


def ends_with(tokens: Int[Tensor, "s l"], words: list[list[int]]) -> Bool[Tensor, "s l"]:
    """Where the tokens read so far end with one of the words."""
    found = torch.zeros_like(tokens, dtype=torch.bool)
    for word in words:
        size = len(word)
        if size <= tokens.shape[1]:
            matches = tokens.unfold(1, size, 1) == torch.tensor(word, device=tokens.device)
            found[:, size - 1 :] |= matches.all(-1)
    return found
