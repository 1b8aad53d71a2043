"""Which tokens a forward pass reads: their positions in the whole sequence, with a KV cache and with padding.

The position of a token is the number of real tokens before it in its sequence. Padding has none, wherever it is.
"""

import inspect
from collections.abc import Collection
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

PADDING = -1

Positions = int | slice | Collection[int] | None
"""One position, a slice such as `slice(5, None)`, several positions, or all of them."""


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
        numbers = [each for each in (wanted.start, wanted.stop, wanted.step) if each is not None]
    else:
        numbers = [wanted] if isinstance(wanted, int) else list(wanted)
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 0 for each in numbers):
        raise ValueError(
            f"positions={wanted} are not all whole numbers ≥ 0; they count from the first token of each sequence, "
            "which has no last one while it is generated"
        )
