"""Record activations during a forward pass that stops at the last hook point."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from quadric.data.hook_points import HookPoint, HookPointError
from quadric.data.length_groups import GroupTokens, run_in_groups
from quadric.data.models import LanguageModel

# The norm between attention and MLP. Gemma 3 has both of the first two, and the first is the right one.
NORMS_BEFORE_MLP = ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2")
ATTENTIONS = ("self_attn", "linear_attn", "attention", "attn")


class _LastHookReached(Exception):  # noqa: N818  (stopping early is not an error)
    """Raised inside the forward pass to stop it."""


def capture(
    model: LanguageModel,
    points: Sequence[HookPoint],
    tokens: Int[Tensor, "s l"],
    mask: Bool[Tensor, "s l"] | None = None,
    *,
    early_stop: bool = True,
) -> dict[str, Float[Tensor, "s l d"]]:
    """Activations at hook points, by canonical name; layers after the last hook point are not run.

    `mask` is False on padding, which must be on the right; None if there is no padding. Sequences of different lengths
    are read in groups of similar length (`length_groups`), and activations on padding are zero.
    """

    def run(group: GroupTokens) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        with ExitStack() as hooks, torch.no_grad():
            for point in sorted(points):
                last = early_stop and point == max(points)
                hooks.callback(_register(model, point, _recorder(found, str(point), last)).remove)
            with suppress(_LastHookReached):
                model.decoder(input_ids=group.tokens, attention_mask=group.attention_mask, use_cache=False)
        return found

    return run_in_groups(run, tokens, mask)


def check_hook_points(model: LanguageModel, points: Sequence[HookPoint]) -> None:
    """Raise if the architecture lacks one of the hook points, before any work is done."""
    for point in points:
        _register(model, point, lambda _: None).remove()


def _recorder(found: dict[str, Tensor], name: str, last: bool) -> Callable[[Tensor], None]:
    owner = threading.get_ident()

    def record(activation: Tensor) -> None:
        # A stream prefetches in its own thread; a forward pass of the same model in another thread must not be stopped.
        if threading.get_ident() != owner:
            return
        found[name] = activation
        if last:
            raise _LastHookReached

    return record


def _register(model: LanguageModel, point: HookPoint, record: Callable[[Tensor], None]) -> Any:
    layer = model.layers[point.layer]
    match point.site:
        case "resid_pre":
            return _on_input(layer, record)
        case "resid_mid":
            return _on_input(_norm_before_mlp(layer, point), record)
        case "attn_out":
            return _on_output(child(layer, ATTENTIONS, point), record)
        case "mlp_out":
            return _on_output(child(layer, ("mlp",), point), record)
        case _:
            return _on_output(layer, record)


def _on_input(module: nn.Module, record: Callable[[Tensor], None]) -> Any:
    def hook(_: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        record(positional[0] if positional else named["hidden_states"])

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _on_output(module: nn.Module, record: Callable[[Tensor], None]) -> Any:
    def hook(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
        record(output[0] if isinstance(output, tuple) else output)

    return module.register_forward_hook(hook)


def _norm_before_mlp(layer: nn.Module, point: HookPoint) -> nn.Module:
    if getattr(layer, "use_parallel_residual", False):
        raise HookPointError(
            f"{point} does not exist: {type(layer).__name__} adds the outputs of attention and MLP in one step; "
            f"give resid_pre.{point.layer}, attn_out.{point.layer} or mlp_out.{point.layer}"
        )
    return child(layer, NORMS_BEFORE_MLP, point)


def child(layer: nn.Module, names: Sequence[str], point: HookPoint) -> nn.Module:
    """The first of the named submodules that the layer has."""
    for name in names:
        child = getattr(layer, name, None)
        if isinstance(child, nn.Module):
            return child
    raise HookPointError(
        f"{point} does not exist: {type(layer).__name__} has none of {', '.join(names)}; "
        f"give resid_pre.{point.layer} instead"
    )
