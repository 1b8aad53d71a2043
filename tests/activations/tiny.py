"""Tiny language models with random weights, one of every supported architecture, and a byte tokenizer."""

from pathlib import Path

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from quadric.activations.models import LanguageModel
from quadric.activations.tokenizer import Tokenizer

N_LAYERS = 4
D_MODEL = 32
SIZES = {
    "vocab_size": 300,
    "hidden_size": D_MODEL,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,  # large, so that every layer changes the stream visibly
    "bos_token_id": 1,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
CONFIGS = {
    "llama": lambda: LlamaConfig(**SIZES, **GROUPED),
    "qwen3": lambda: Qwen3Config(**SIZES, **GROUPED),
    "gemma3": lambda: Gemma3TextConfig(**SIZES, **GROUPED, sliding_window=8),
    "gpt2": lambda: GPT2Config(**SIZES),
    "gpt_neox": lambda: GPTNeoXConfig(**SIZES),
    "qwen3_5": lambda: Qwen3_5TextConfig(
        **SIZES,
        num_key_value_heads=2,
        head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
}
ARCHITECTURES = tuple(CONFIGS)


def tiny_tokenizer(*, adds_bos: bool = False) -> PreTrainedTokenizerFast:
    """One token a byte, and two special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<|endoftext|>", "<bos>", *alphabet])}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", bos_token="<bos>")


def tiny_causal(architecture: str = "llama", **changes: object) -> torch.nn.Module:
    config = CONFIGS[architecture]()
    for name, value in changes.items():
        setattr(config, name, value)
    torch.manual_seed(0)  # transformers draws from the global generator
    return AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)


def tiny_model(architecture: str = "llama", *, adds_bos: bool = False, **changes: object) -> LanguageModel:
    tokenizer = Tokenizer(tiny_tokenizer(adds_bos=adds_bos))
    return LanguageModel(f"tiny-{architecture}", "random", tiny_causal(architecture, **changes), tokenizer)


def save_tiny(folder: Path, architecture: str = "llama", *, adds_bos: bool = False) -> Path:
    """A folder such as `save_pretrained` writes."""
    tiny_causal(architecture).save_pretrained(folder)
    tiny_tokenizer(adds_bos=adds_bos).save_pretrained(folder)
    return folder


def random_tokens(sequences: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2, 258, (sequences, length), generator=torch.Generator().manual_seed(seed))
