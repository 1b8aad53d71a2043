"""Language model + hook points -> stream of token vectors (n, d).

    config = ActivationConfig(model="smollm2", hook_points="layers.15")
    stream = LiveStream.open(config, batch=BatchSize(sequences=32), repeat=True)
    for batch in stream:                      # ActivationBatch: activations by hook point, tokens, places
        step(batch.activations["resid_pre.15"])
        checkpoint["stream"] = stream.state_dict()

`CachedStream(ActivationCache(folder), batch=BatchSize(tokens=8192))` reads such batches from a cache. Training code
depends on `ActivationStream` only, so both work. The modules, in the order in which data flows:

    models, tokenizer     a language model from the hub, a folder, a GGUF file, or the embedded one
    hook_points, capture  names of places in it, and a forward pass that stops at the last of them
    token_rules           which tokens are kept
    batches, live_stream  batches with a cursor
    provenance            where they came from
    harvesting, shards    write activations to disk
    manifest, parts       what is there; several workers on one cache
    cache                 read them back
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.data.batches import ActivationBatch, ActivationStream, BatchSize
    from quadric.data.cache import ActivationCache, CachedStream
    from quadric.data.config import describe
    from quadric.data.harvesting import harvest_to_folder
    from quadric.data.hook_points import parse_hook_point, parse_hook_points
    from quadric.data.live_stream import LiveStream
    from quadric.data.models import LanguageModel, find_model, load_model
    from quadric.data.settings import ActivationConfig, HarvestConfig, TokenRules

# Imported on first use, so that the command line can read the settings of this stage without importing torch.
_HOME = {
    "ActivationBatch": "batches",
    "ActivationCache": "cache",
    "ActivationConfig": "settings",
    "ActivationStream": "batches",
    "BatchSize": "batches",
    "CachedStream": "cache",
    "HarvestConfig": "settings",
    "LanguageModel": "models",
    "LiveStream": "live_stream",
    "TokenRules": "settings",
    "describe": "config",
    "find_model": "models",
    "harvest_to_folder": "harvesting",
    "load_model": "models",
    "parse_hook_point": "hook_points",
    "parse_hook_points": "hook_points",
}

__all__ = [
    "ActivationBatch",
    "ActivationCache",
    "ActivationConfig",
    "ActivationStream",
    "BatchSize",
    "CachedStream",
    "HarvestConfig",
    "LanguageModel",
    "LiveStream",
    "TokenRules",
    "describe",
    "find_model",
    "harvest_to_folder",
    "load_model",
    "parse_hook_point",
    "parse_hook_points",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"quadric.data.{_HOME[name]}"), name)
    raise AttributeError(f"module 'quadric.data' has no attribute {name!r}; it offers {', '.join(__all__)}")
