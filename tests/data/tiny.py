"""Tiny language models with random weights, one of every supported architecture, and a byte tokenizer."""

from pathlib import Path

import gguf
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

from quadric.data.models import LanguageModel
from quadric.data.tokenizer import Tokenizer

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
    """One token per byte, and two special tokens."""
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


def save_tiny_gguf(path: Path) -> dict[str, torch.Tensor]:
    """Write a tiny Llama as a GGUF file, packed as the embedded model is; returns the weights that the file holds."""
    causal = tiny_causal("llama", vocab_size=259)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(N_LAYERS)
    writer.add_context_length(SIZES["max_position_embeddings"])
    writer.add_embedding_length(D_MODEL)
    writer.add_feed_forward_length(SIZES["intermediate_size"])
    writer.add_head_count(SIZES["num_attention_heads"])
    writer.add_head_count_kv(GROUPED["num_key_value_heads"])
    writer.add_rope_dimension_count(GROUPED["head_dim"])
    writer.add_layer_norm_rms_eps(causal.config.rms_norm_eps)
    _add_tokenizer(writer, tiny_tokenizer())
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, N_LAYERS)
    held = {}
    for name, weights in causal.state_dict().items():
        heads = {"q_proj": SIZES["num_attention_heads"], "k_proj": GROUPED["num_key_value_heads"]}
        packed = _pack(writer, names.get_name(name, (".weight",)), weights, heads.get(name.split(".")[-2]))
        held[name] = packed
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: PreTrainedTokenizerFast) -> None:
    tokens = [*tokenizer.convert_ids_to_tokens(range(len(tokenizer))), "ab"]  # a reader expects at least one merge
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.bos_token_id)


def _pack(writer: gguf.GGUFWriter, name: str, weights: torch.Tensor, heads: int | None) -> torch.Tensor:
    """Add one tensor, matrices in Q4_1; returns its values after packing, in the order of transformers."""
    if weights.ndim == 1:
        writer.add_tensor(name, weights.numpy())
        return weights
    kind = gguf.GGMLQuantizationType.Q4_1
    blocks = gguf.quantize(_interleaved(weights, heads).numpy(), kind)
    writer.add_tensor(name, blocks, raw_dtype=kind)
    return _interleaved(torch.from_numpy(gguf.dequantize(blocks, kind)), heads, back=True)


def _interleaved(weights: torch.Tensor, heads: int | None, *, back: bool = False) -> torch.Tensor:
    """Rows of queries and keys as GGUF orders them: the two halves of every head alternate."""
    if heads is None:
        return weights
    half = len(weights) // heads // 2
    shape = (heads, half, 2, -1) if back else (heads, 2, half, -1)
    return weights.reshape(shape).swapaxes(1, 2).reshape(weights.shape).contiguous()


def random_tokens(sequences: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2, 258, (sequences, length), generator=torch.Generator().manual_seed(seed))
