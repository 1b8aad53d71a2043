"""FLOPs per token of running a language model up to a hook point, computed from its shape alone."""

from dataclasses import dataclass

import torch

from quadric.data.hook_points import parse_hook_points
from quadric.data.models import LanguageModel, ModelSource, load_shape, plain_errors

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
    weights = sum(each.numel() for layer in model.layers[:n_layers] for each in layer.parameters() if each.ndim > 1)
    text = config.get_text_config()
    width = text.num_attention_heads * (getattr(text, "head_dim", None) or shape.d_model // text.num_attention_heads)
    attention = n_layers * 2 * FLOPS_PER_WEIGHT * block_length * width
    return ReadingCost(
        d_model=shape.d_model,
        n_layers=n_layers,
        flops_per_token=float(FLOPS_PER_WEIGHT * weights + attention),
        weight_bytes=4 * sum(each.numel() for each in causal.parameters()),
    )
