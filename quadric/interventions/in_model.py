"""`quadric.intervene`: interventions inside a language model, in every forward pass and in `generate`.

The position of a token is the number of real tokens before it in its sequence, with a KV cache and with padding, which
has no position wherever it is.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from quadric.data.forward import replace_at
from quadric.data.hook_points import HookPoint, HookPointError, parse_hook_point
from quadric.data.models import LanguageModel, decoder_of, layers_of
from quadric.data.provenance import check_same_model
from quadric.interventions.combining import Combination, Intervention
from quadric.interventions.latents import Latent

Condition = Callable[[Tensor], Tensor]
PADDING = -1
Positions = int | slice | Collection[int] | None
"""One position, a slice such as `slice(5, None)`, several positions, or all of them."""


@contextmanager
def intervene(
    model: Any,
    *interventions: Intervention,
    positions: Positions = None,
    where: Condition | None = None,
    hook_point: str | int | None = None,
    check_model: bool = True,
) -> Iterator[Any]:
    """Apply interventions to the activations of a language model inside the `with` block.

    They act in every forward pass, including those of `generate` with a KV cache. Interventions at one hook point are
    all computed from the original activation and applied together; nest two `with` blocks to apply one after the other.
    Padding is left alone, and where nothing changes, activations and logits are the same to the bit.

    Args:
        model: A `transformers` causal language model in memory, or a `LanguageModel`.
        interventions: Such as `ae.latent(214).project(to=0.5)`; none change nothing.
        positions: Positions to act at, counted from the first real token of each sequence, whether it is in the cache
            or not: a number, several, or a slice such as `slice(5, None)`. By default all.
        where: Condition on the activations (n, d), such as `ae.latent(3).above(0.2)`; by default everywhere.
        hook_point: Where to act; by default where each dictionary was trained.
        check_model: Whether to refuse a model that is not the one of the dictionary.

    Returns:
        A context manager; it yields the model.

    Example:
        >>> ids = tokenizer("Monday comes", return_tensors="pt").input_ids
        >>> with quadric.intervene(model, ae.latent(3).ablate()):
        ...     continued = model.generate(ids, max_new_tokens=4, pad_token_id=0)
        >>> continued.shape[1] <= ids.shape[1] + 4
        True
    """
    check_positions(positions)
    decoder = model.decoder if isinstance(model, LanguageModel) else decoder_of(model)
    layers = layers_of(decoder)
    groups = _by_hook_point(interventions, hook_point, len(layers))
    for intervention in interventions:
        if check_model:
            check_same_model(model, intervention.autoencoder.provenance)
    with ExitStack() as hooks:
        for point, members in groups.items():
            joint = Combination(members)
            hooks.enter_context(edit_activations(model, point, joint, joint.d_model, positions=positions, where=where))
        yield model


@contextmanager
def edit_activations(
    model: Any,
    point: HookPoint,
    change: Callable[[Tensor], Tensor],
    d_model: int,
    *,
    positions: Positions = None,
    where: Condition | None = None,
) -> Iterator[None]:
    """Apply any function of the activations at one hook point; `intervene` says what the arguments mean.

    Args:
        model: A `transformers` causal language model in memory, or a `LanguageModel`.
        point: Where to act.
        change: From activations (n, d) to those that the model continues with.
        d_model: The width d that `change` takes.
        positions: Positions to act at.
        where: Condition on the activations.

    Returns:
        A context manager.
    """
    decoder = model.decoder if isinstance(model, LanguageModel) else decoder_of(model)
    current: Int[Tensor, "s l"] = torch.empty(0, 0, dtype=torch.long)

    def read(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note which tokens the running forward pass reads."""
        nonlocal current
        current = token_positions(module, arguments, named)

    def edit(hidden: Tensor) -> Tensor:
        if hidden.shape[-1] != d_model:
            raise HookPointError(
                f"the dictionary reads activations of width {d_model}, and {point} has {hidden.shape[-1]}; "
                "give the model and hook point that it was trained on"
            )
        chosen = selected(current, positions).to(hidden.device)
        if where is not None and bool(chosen.any()):
            chosen = chosen.clone()
            chosen[chosen.clone()] = _holds(where, hidden[chosen])
        if not bool(chosen.any()):
            return hidden
        changed = hidden.clone()
        changed[chosen] = change(hidden[chosen]).to(hidden)
        return changed

    with ExitStack() as hooks:
        hooks.callback(decoder.register_forward_pre_hook(read, with_kwargs=True).remove)
        hooks.callback(replace_at(layers_of(decoder), point, edit).remove)
        yield


def _by_hook_point(
    interventions: Sequence[Intervention], hook_point: str | int | None, n_layers: int
) -> dict[HookPoint, list[Intervention]]:
    groups: dict[HookPoint, list[Intervention]] = {}
    for each in interventions:
        if isinstance(each, Latent):
            raise ValueError(f"{each} needs something to be done with it, e.g. ae.latent({each.index}).project(to=0.5)")
        if not isinstance(each, Intervention):
            raise ValueError(f"{each!r} is not an intervention; give e.g. ae.latent(3).project(to=0.5)")
        name = each.autoencoder.provenance.hook_point if hook_point is None else str(hook_point)
        if name is None:
            raise HookPointError(
                "the dictionary does not record its hook point, since it was trained on rows; give e.g. "
                "hook_point='resid_pre.15'"
            )
        groups.setdefault(parse_hook_point(name, n_layers), []).append(each)
    return groups


def _holds(where: Condition, activations: Tensor) -> Bool[Tensor, " n"]:
    found = where(activations.detach())
    if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != activations.shape[:1]:
        shown = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"where= returned {shown}; return one bool per token, ({len(activations)},)")
    return found.to(activations.device)


def token_positions(decoder: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Int[Tensor, "s l"]:
    """Positions of the tokens of one call of the decoder; −1 for padding.

    Args:
        decoder: The model whose forward was called.
        arguments: Its positional arguments.
        named: Its keyword arguments.

    Returns:
        One row per sequence. A mask of two dimensions decides; without one, `position_ids`, and without those the
        number of tokens in the cache.
    """
    call = inspect.signature(decoder.forward).bind_partial(*arguments, **named).arguments
    call = {**call, **call.get("kwargs", {})}
    tokens = call["input_ids"] if call.get("input_ids") is not None else call["inputs_embeds"]
    n_sequences, length = tokens.shape[:2]
    mask = call.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2:
        counted = mask.long().cumsum(1) - 1
        return torch.where(mask.bool(), counted, PADDING)[:, -length:]
    given = call.get("position_ids")
    if isinstance(given, Tensor) and given.ndim == 2:
        return given.expand(n_sequences, length)
    cache = call.get("past_key_values")
    past = int(cache.get_seq_length()) if cache is not None else 0
    return torch.arange(past, past + length, device=tokens.device).expand(n_sequences, length)


def selected(positions: Int[Tensor, "s l"], wanted: Positions) -> Bool[Tensor, "s l"]:
    """Which of the tokens are at wanted positions; never padding."""
    real = positions != PADDING
    if wanted is None:
        return real
    if isinstance(wanted, slice):
        start, stop, step = wanted.start or 0, wanted.stop, wanted.step or 1
        inside = (positions >= start) & ((positions - start) % step == 0)
        return real & inside if stop is None else real & inside & (positions < stop)
    chosen = [wanted] if isinstance(wanted, int) else list(wanted)
    return real & torch.isin(positions, torch.tensor(chosen, dtype=torch.long, device=positions.device))


def check_positions(wanted: Positions) -> None:
    """Refuse positions that no token can have."""
    if wanted is None:
        return
    if isinstance(wanted, slice):
        numbers = [number for number in (wanted.start, wanted.stop, wanted.step) if number is not None]
    else:
        numbers = [wanted] if isinstance(wanted, int) else list(wanted)
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        raise ValueError(
            f"positions={wanted} are not all whole numbers ≥ 0; they count from the first token of each sequence, "
            "which has no last one while it is generated"
        )
