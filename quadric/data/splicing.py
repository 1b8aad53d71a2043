"""Predictions of a language model with some of its activations replaced."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from quadric.data.capture import ATTENTIONS, child
from quadric.data.hook_points import HookPoint, HookPointError
from quadric.data.length_groups import GroupTokens, run_in_groups
from quadric.data.models import LanguageModel


class Replacement(NamedTuple):
    """Vectors to insert at a hook point, at the positions where the mask is True."""

    point: HookPoint
    mask: Bool[Tensor, "s l"]
    vectors: Float[Tensor, "n d"]

    def of_group(self, group: GroupTokens) -> "Replacement":
        """The part for some of the sequences."""
        parts = torch.split(self.vectors, self.mask.sum(dim=1).tolist())
        own = torch.cat([parts[row] for row in group.rows.tolist()])
        return Replacement(self.point, self.mask[group.rows, : group.tokens.shape[1]], own)


def predictions(
    model: LanguageModel,
    tokens: Int[Tensor, "s l"],
    mask: Bool[Tensor, "s l"] | None = None,
    replacement: Replacement | None = None,
) -> Float[Tensor, "s l v"]:
    """Logits of the next token at every position; `mask` is False on padding, which must be on the right.

    Sequences of different lengths are read in groups of similar length; logits on padding are zero.
    """

    def run(group: GroupTokens) -> dict[str, Tensor]:
        own = None if replacement is None else replacement.of_group(group)
        with torch.no_grad(), _spliced(model, own):
            found = model.causal(input_ids=group.tokens, attention_mask=group.attention_mask, use_cache=False)
        return {"logits": found.logits.float()}

    return run_in_groups(run, tokens, mask)["logits"]


@contextmanager
def _spliced(model: LanguageModel, replacement: Replacement | None) -> Iterator[None]:
    if replacement is None:
        yield
        return

    def replaced(hidden: Tensor) -> Tensor:
        hidden = hidden.clone()
        hidden[replacement.mask] = replacement.vectors.to(hidden.dtype)
        return hidden

    hook = replace_at(model.layers, replacement.point, replaced)
    try:
        yield
    finally:
        hook.remove()


def replace_at(layers: nn.ModuleList, point: HookPoint, replaced: Callable[[Tensor], Tensor]) -> Any:
    """Replace the activations (s, l, d) at a hook point in every forward pass; returns the handle that removes it.

    Args:
        layers: Of the decoder.
        point: Any but resid_mid.
        replaced: From the activations to what the model continues with.

    Returns:
        A handle with `remove()`.
    """
    layer = layers[point.layer]
    match point.site:
        case "resid_pre":
            return _on_input(layer, replaced)
        case "attn_out":
            return _on_output(child(layer, ATTENTIONS, point), replaced)
        case "mlp_out":
            return _on_output(child(layer, ("mlp",), point), replaced)
        case "resid_post":
            return _on_output(layer, replaced)
        case _:
            # Replacing the input of the norm is not enough: the residual connection bypasses the norm.
            raise HookPointError(
                f"activations cannot be replaced at {point}; give a dictionary of resid_pre, attn_out or mlp_out"
            )


def _on_input(module: nn.Module, replaced: Callable[[Tensor], Tensor]) -> Any:
    def hook(
        _: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if positional:
            return (replaced(positional[0]), *positional[1:]), named
        return positional, named | {"hidden_states": replaced(named["hidden_states"])}

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _on_output(module: nn.Module, replaced: Callable[[Tensor], Tensor]) -> Any:
    def hook(_: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        return (replaced(output[0]), *output[1:]) if isinstance(output, tuple) else replaced(output)

    return module.register_forward_hook(hook)
