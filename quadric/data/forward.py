"""Forward passes of a language model: activations at hook points, predictions with some of them replaced, and FLOPs.

A pass stops at the last hook point. Sequences of similar length go through the model together, so that it hardly ever
computes padding: they are sorted by length and cut into groups, each of which is padded to its own longest sequence.
The cut has the least cost of all, where a group costs its positions, padding included, and a constant for starting a
forward pass: a group for every length would compute no padding at all, but reads all weights for a handful of tokens.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from quadric.data.hook_points import HookPoint, HookPointError, parse_hook_points
from quadric.data.models import LanguageModel, ModelSource, load_shape, plain_errors

PASS_COST = 16
"""Positions that take as long as starting another forward pass, on a CPU (docs/decisions.md)."""
ACCELERATOR_PASS_COST = 1024
"""The same on an accelerator, where a short pass is mostly waiting. A guess: we have measured none."""


class LengthGroup(NamedTuple):
    """Sequences that go through the model together."""

    places: list[int]
    """Which sequences, shortest first."""
    length: int
    """Length of the longest."""

    @property
    def positions(self) -> int:
        """Positions that the model computes, padding included."""
        return len(self.places) * self.length


def pass_cost(device: torch.device) -> int:
    """Positions that take as long as starting another forward pass."""
    return PASS_COST if device.type == "cpu" else ACCELERATOR_PASS_COST


def length_groups(lengths: Sequence[int], cost: int, most: int | None = None) -> list[LengthGroup]:
    """Cut sequences, sorted by length, into the groups that cost least.

    A forward pass costs its positions and `cost` more; a group has at most `most` sequences. The groups go from the
    shortest sequences to the longest.

    Example:
        >>> length_groups([250, 12, 10, 256], cost=16)
        [LengthGroup(places=[2, 1], length=12), LengthGroup(places=[0, 3], length=256)]
    """
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    most = len(order) if most is None else most
    best, starts = [0], [0]
    for end in range(1, len(order) + 1):
        # The group that ends here may begin at any of the last `most` places; the rest before it is cut at its best.
        longest = lengths[order[end - 1]]
        first = range(max(0, end - most), end)
        costs = [best[start] + (end - start) * longest + cost for start in first]
        best.append(min(costs))
        starts.append(first[costs.index(min(costs))])
    groups, end = list[LengthGroup](), len(order)
    while end:
        groups.append(LengthGroup(order[starts[end] : end], lengths[order[end - 1]]))
        end = starts[end]
    return groups[::-1]


def groups_of(mask: Bool[Tensor, "s l"]) -> list[LengthGroup]:
    """Groups of sequences that are padded on the right, where the mask is False."""
    return length_groups(mask.sum(dim=1).tolist(), pass_cost(mask.device))


class GroupTokens(NamedTuple):
    """The tokens of one group, and which sequences they are."""

    rows: Int[Tensor, " g"]
    tokens: Int[Tensor, "g m"]
    attention_mask: Int[Tensor, "g m"] | None
    """None where nothing is padded, which allows attention without a mask."""


def run_in_groups(
    run: Callable[[GroupTokens], dict[str, Tensor]], tokens: Int[Tensor, "s l"], mask: Bool[Tensor, "s l"] | None
) -> dict[str, Tensor]:
    """Run a model on sequences group by group, and put its results (g, m, …) together as (s, l, …), 0 on padding.

    The tokens are padded on the right, where the mask is False. Without padding there is one run.
    """
    if mask is None or bool(mask.all()):
        return run(GroupTokens(torch.arange(len(tokens), device=tokens.device), tokens, None))
    together: dict[str, Tensor] = {}
    for group in groups_of(mask):
        given = _tokens_of(group, tokens, mask)
        for name, result in run(given).items():
            if name not in together:
                together[name] = result.new_zeros(*tokens.shape, *result.shape[2:])
            together[name][given.rows, : group.length] = result
    for result in together.values():
        result[~mask] = 0
    return together


def _tokens_of(group: LengthGroup, tokens: Int[Tensor, "s l"], mask: Bool[Tensor, "s l"]) -> GroupTokens:
    rows = torch.tensor(group.places, device=tokens.device)
    here = mask[rows, : group.length]
    return GroupTokens(rows, tokens[rows, : group.length], None if bool(here.all()) else here.long())


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
) -> dict[str, Float[Tensor, "s l d"]]:
    """Activations at hook points, by canonical name; layers after the last hook point are not run.

    `mask` is False on padding, which must be on the right; None if there is no padding. Sequences of different lengths
    are read in groups of similar length, and activations on padding are zero.
    """

    def run(group: GroupTokens) -> dict[str, Tensor]:
        recorded: dict[str, Tensor] = {}
        with ExitStack() as hooks, torch.no_grad():
            for point in sorted(points):
                record = _recorder(recorded, str(point), point == max(points))
                hooks.callback(_hook(model.layers, point, record).remove)
            with suppress(_LastHookReached):
                model.decoder(input_ids=group.tokens, attention_mask=group.attention_mask, use_cache=False)
        return recorded

    return run_in_groups(run, tokens, mask)


def check_hook_points(model: LanguageModel, points: Sequence[HookPoint]) -> None:
    """Raise if the architecture lacks one of the hook points, before any work is done."""
    for point in points:
        _place(model.layers, point)


def _recorder(recorded: dict[str, Tensor], name: str, last: bool) -> Callable[[Tensor], Tensor]:
    owner = threading.get_ident()

    def record(activation: Tensor) -> Tensor:
        # A stream prefetches in its own thread; a forward pass of the same model in another thread must not be stopped.
        if threading.get_ident() == owner:
            recorded[name] = activation
            if last:
                raise _LastHookReached
        return activation

    return record


class _Place(NamedTuple):
    """The module whose input or output is the activation at a hook point."""

    module: nn.Module
    is_input: bool


def _place(layers: nn.ModuleList, point: HookPoint) -> _Place:
    layer = layers[point.layer]
    match point.site:
        case "resid_pre":
            return _Place(layer, is_input=True)
        case "resid_mid":
            return _Place(_norm_before_mlp(layer, point), is_input=True)
        case "attn_out":
            return _Place(_child(layer, ATTENTIONS, point), is_input=False)
        case "mlp_out":
            return _Place(_child(layer, ("mlp",), point), is_input=False)
        case _:
            return _Place(layer, is_input=False)


def _hook(layers: nn.ModuleList, point: HookPoint, change: Callable[[Tensor], Tensor]) -> Any:
    """Pass the activation at a hook point through a function; returns the handle that removes the hook."""

    def on_input(
        _: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if positional:
            return (change(positional[0]), *positional[1:]), named
        return positional, named | {"hidden_states": change(named["hidden_states"])}

    def on_output(_: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    module, is_input = _place(layers, point)
    if is_input:
        return module.register_forward_pre_hook(on_input, with_kwargs=True)
    return module.register_forward_hook(on_output)


def _norm_before_mlp(layer: nn.Module, point: HookPoint) -> nn.Module:
    if getattr(layer, "use_parallel_residual", False):
        raise HookPointError(
            f"{point} does not exist: {type(layer).__name__} adds the outputs of attention and MLP in one step; "
            f"give resid_pre.{point.layer}, attn_out.{point.layer} or mlp_out.{point.layer}"
        )
    return _child(layer, NORMS_BEFORE_MLP, point)


def _child(layer: nn.Module, names: Sequence[str], point: HookPoint) -> nn.Module:
    """The first of the named submodules that the layer has."""
    for name in names:
        if isinstance(module := getattr(layer, name, None), nn.Module):
            return module
    raise HookPointError(
        f"{point} does not exist: {type(layer).__name__} has none of {', '.join(names)}; "
        f"give resid_pre.{point.layer} instead"
    )


class Replacement(NamedTuple):
    """Vectors to insert at a hook point, at the positions where the mask is True."""

    point: HookPoint
    mask: Bool[Tensor, "s l"]
    vectors: Float[Tensor, "n d"]

    def of_group(self, group: GroupTokens) -> "Replacement":
        """The part for some of the sequences."""
        parts = torch.split(self.vectors, self.mask.sum(dim=1).tolist())
        vectors = torch.cat([parts[row] for row in group.rows.tolist()])
        return Replacement(self.point, self.mask[group.rows, : group.tokens.shape[1]], vectors)

    def inserted(self, hidden: Float[Tensor, "s l d"]) -> Float[Tensor, "s l d"]:
        """A copy of the activations with the vectors in their places."""
        hidden = hidden.clone()
        hidden[self.mask] = self.vectors.to(hidden.dtype)
        return hidden


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
        with ExitStack() as hooks, torch.no_grad():
            if replacement is not None:
                insert = replacement.of_group(group).inserted
                hooks.callback(replace_at(model.layers, replacement.point, insert).remove)
            output = model.causal(input_ids=group.tokens, attention_mask=group.attention_mask, use_cache=False)
        return {"logits": output.logits.float()}

    return run_in_groups(run, tokens, mask)["logits"]


def replace_at(layers: nn.ModuleList, point: HookPoint, replaced: Callable[[Tensor], Tensor]) -> Any:
    """Replace the activations (s, l, d) at a hook point, any but resid_mid, in every forward pass.

    Returns a handle with `remove()`.
    """
    if point.site == "resid_mid":
        # Replacing the input of the norm is not enough: the residual connection bypasses the norm.
        raise HookPointError(
            f"activations cannot be replaced at {point}; give a dictionary of resid_pre, attn_out or mlp_out"
        )
    return _hook(layers, point, replaced)


FLOPS_PER_WEIGHT = 2


@dataclass(frozen=True, kw_only=True)
class ReadingCost:
    """Cost of running a language model up to a hook point."""

    d_model: int
    n_layers: int
    """Number of layers that run before the forward pass stops."""
    flops_per_token: float
    """FLOPs of the matrix products; an upper bound for a mixture of experts, since all experts are counted."""
    weight_bytes: int
    """Size of the whole model in float32."""


def reading_cost(source: ModelSource, hook_points: str, block_length: int) -> ReadingCost:
    """Two FLOPs per weight of the layers that run, plus attention between the tokens of a block."""
    shape = load_shape(source)
    points = parse_hook_points(hook_points, shape.n_layers)
    last = points[-1]
    n_layers = last.layer if last.site == "resid_pre" else last.layer + 1
    with plain_errors(source.name, source.location, source.gguf_file), torch.device("meta"):
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(source.location, **source.arguments)
        # Takes no memory: a tensor on the meta device has a shape but no values.
        causal = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model = LanguageModel(source.name, source.revision, causal, shape.tokenizer)
    weights = sum(
        weight.numel() for layer in model.layers[:n_layers] for weight in layer.parameters() if weight.ndim > 1
    )
    text = config.get_text_config()
    width = text.num_attention_heads * (getattr(text, "head_dim", None) or shape.d_model // text.num_attention_heads)
    attention = n_layers * 2 * FLOPS_PER_WEIGHT * block_length * width
    return ReadingCost(
        d_model=shape.d_model,
        n_layers=n_layers,
        flops_per_token=float(FLOPS_PER_WEIGHT * weights + attention),
        weight_bytes=4 * sum(parameter.numel() for parameter in causal.parameters()),
    )
