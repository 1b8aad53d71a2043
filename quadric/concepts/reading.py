"""Activations of the language model at the words of a concept."""

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.activations import LanguageModel, TokenRules
from quadric.activations.capture import capture
from quadric.activations.hook_points import HookPoint
from quadric.concepts.words import Concept


def concept_vectors(
    model: LanguageModel, points: list[HookPoint], rules: TokenRules, concept: Concept
) -> dict[str, Float[Tensor, "b w d"]]:
    """Unit activations of the last token of every word after every prompt, in float64, keyed by hook point."""
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
    return {name: _unit(vectors[rows, lengths - 1].double().cpu()) for name, vectors in found.items()}


def _unit(vectors: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / norms
