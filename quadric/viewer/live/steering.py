"""Continuations and next tokens of a prompt, with and without an intervention."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.data import LanguageModel


class Continuation(NamedTuple):
    """What the model says next."""

    token_ids: list[int]
    """The most likely token each time; ends before the end of the text."""
    next_log_probabilities: Float[Tensor, " v"]
    """Of the first token after the prompt."""


class NextToken(NamedTuple):
    """One bar of the picture: a token and its probability with and without the intervention."""

    token_id: int
    plain: float
    steered: float


@torch.no_grad()
def continuation(
    model: LanguageModel,
    token_ids: Sequence[int],
    n_tokens: int,
    on_token: Callable[[int], None] = lambda done: None,
) -> Continuation:
    """The most likely continuation of a prompt.

    Args:
        model: The language model.
        token_ids: The prompt.
        n_tokens: Tokens to generate.
        on_token: Called with the number of tokens generated so far, after every token; may raise to stop.

    Returns:
        The new tokens, and the distribution of the first of them.
    """
    ends = {model.tokenizer.separator, model.tokenizer.hf.eos_token_id} - {None}
    tokens, cache, found = torch.tensor([list(token_ids)], device=model.device), None, list[int]()
    first: Tensor | None = None
    for done in range(n_tokens):
        output = model.causal(input_ids=tokens, past_key_values=cache, use_cache=True)
        logits, cache = output.logits[0, -1].float().cpu(), output.past_key_values
        first = logits.log_softmax(-1) if first is None else first
        token = int(logits.argmax())
        on_token(done + 1)
        if token in ends:
            break
        found.append(token)
        tokens = torch.tensor([[token]], device=model.device)
    assert first is not None
    return Continuation(found, first)


def next_tokens(plain: Continuation, steered: Continuation, count: int) -> list[NextToken]:
    """The most likely next tokens of either side, by the larger probability."""
    both = [each.next_log_probabilities.exp() for each in (plain, steered)]
    order = torch.maximum(*both).argsort(descending=True, stable=True)[:count].tolist()
    return [NextToken(token, float(both[0][token]), float(both[1][token])) for token in order]
