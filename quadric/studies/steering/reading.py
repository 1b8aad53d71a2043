"""What a language model says to prompts and to text, steered or not."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric.data import LanguageModel, TokenRules
from quadric.data.forward import replace_at
from quadric.data.hook_points import HookPoint
from quadric.interventions.in_model import edit_activations
from quadric.studies.steering.methods import Change

AFTER_FIRST = slice(1, None)
"""Positions that are steered: the first token of a sequence is an attention sink in many models, and breaking it would
measure nothing else."""


class Prompts(NamedTuple):
    """Token ids of prompts, padded on the left so that all end in the last column."""

    tokens: Int[Tensor, "s l"]
    mask: Bool[Tensor, "s l"]

    @property
    def positions(self) -> Int[Tensor, "s l"]:
        """Number of real tokens before each."""
        return (self.mask.long().cumsum(1) - 1).clamp(min=0)


@contextmanager
def steered(
    model: LanguageModel, point: HookPoint, change: Change | None, known: Tensor | None = None
) -> Iterator[None]:
    """The model with activations changed at a hook point, at all positions but the first.

    Args:
        model: The language model.
        point: Where to act.
        change: What to do; None changes nothing.
        known: Activations at the hook point of the tokens that will be read, from `recorded`, to save their layers.

    Returns:
        A context manager.
    """
    with ExitStack() as hooks:
        if known is not None:
            hooks.enter_context(_resumed(model, point, known))
        if change is not None:
            hooks.enter_context(edit_activations(model, point, change, model.d_model, positions=AFTER_FIRST))
        yield


@contextmanager
def recorded(model: LanguageModel, point: HookPoint) -> Iterator[list[Tensor]]:
    """Collect the activations at a hook point, padding included, of every forward pass inside the block."""
    found: list[Tensor] = []

    def record(hidden: Tensor) -> Tensor:
        found.append(hidden)
        return hidden

    hook = replace_at(model.layers, point, record)
    try:
        yield found
    finally:
        hook.remove()


@contextmanager
def _resumed(model: LanguageModel, point: HookPoint, known: Tensor) -> Iterator[None]:
    """Start forward passes at the hook point. Only the input of a layer allows that; elsewhere all layers are run."""
    if point.site != "resid_pre":
        yield
        return

    def passed_on(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return hidden_states

    before = list(model.layers[: point.layer])
    hook = replace_at(model.layers, point, lambda _: known)
    for layer in before:
        layer.forward = passed_on
    try:
        yield
    finally:
        hook.remove()
        for layer in before:
            del layer.forward


def encode_prompts(model: LanguageModel, texts: Sequence[str], rules: TokenRules | None = None) -> Prompts:
    """Prompts as tokens, with a BOS token where the rules want one."""
    bos = (rules or TokenRules()).bos_of(model.tokenizer)
    ids = [[*([] if bos is None else [bos]), *each] for each in model.tokenizer.encode(list(texts))]
    for text, each in zip(texts, ids, strict=True):
        if len(each) < 2:
            raise ValueError(
                f"prompt {text!r} has {len(each)} tokens; steering starts at the second, so give longer ones"
            )
    longest = max(map(len, ids))
    tokens = torch.tensor([[0] * (longest - len(each)) + each for each in ids])
    mask = torch.tensor([[False] * (longest - len(each)) + [True] * len(each) for each in ids])
    return Prompts(tokens.to(model.device), mask.to(model.device))


def text_tokens(model: LanguageModel, texts: Sequence[str], length: int) -> Int[Tensor, "s l"]:
    """The beginnings of texts; those that are shorter than `length` are left out, unless all are."""
    encoded = [each[:length] for each in model.tokenizer.encode(list(texts))]
    longest = max(map(len, encoded), default=0)
    if longest < 2:
        raise ValueError("texts has none of two tokens or more; give unrelated texts, such as paragraphs of a book")
    return torch.tensor([each for each in encoded if len(each) == longest], device=model.device)


@torch.no_grad()
def next_token(model: LanguageModel, prompts: Prompts) -> Float[Tensor, "s v"]:
    """Log-probabilities of the token after each prompt."""
    logits: Tensor = model.causal(
        input_ids=prompts.tokens,
        attention_mask=prompts.mask.long(),
        position_ids=prompts.positions,
        use_cache=False,
        logits_to_keep=1,
    ).logits[:, -1]
    return logits.float().log_softmax(-1)


@torch.no_grad()
def continuations(model: LanguageModel, prompts: Prompts, length: int, seed: int) -> Int[Tensor, "s l"]:
    """Tokens sampled after each prompt, without the prompt."""
    causal: Any = model.causal
    with torch.random.fork_rng(devices=[]):  # `generate` draws from the global generator
        torch.manual_seed(seed)
        found = causal.generate(
            prompts.tokens,
            attention_mask=prompts.mask.long(),
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            repetition_penalty=1.0,
            pad_token_id=0,
        )
    new: Tensor = found[:, prompts.tokens.shape[1] :]
    return new


@torch.no_grad()
def continuation_cross_entropy(model: LanguageModel, prompts: Prompts, new: Int[Tensor, "s l"]) -> Float[Tensor, " s"]:
    """Mean cross-entropy per token of continuations under the model as it is here."""
    whole = Prompts(
        torch.cat([prompts.tokens, new], dim=1),
        torch.cat([prompts.mask, torch.ones_like(new, dtype=torch.bool)], dim=1),
    )
    logits: Tensor = model.causal(
        input_ids=whole.tokens,
        attention_mask=whole.mask.long(),
        position_ids=whole.positions,
        use_cache=False,
        logits_to_keep=new.shape[1] + 1,
    ).logits[:, :-1]
    return -logits.float().log_softmax(-1).gather(-1, new[..., None])[..., 0].mean(1)
