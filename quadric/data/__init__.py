"""Language model + hook points -> stream of token vectors (n, d).

    config = ActivationConfig(model="smollm2", hook_points="layers.15")
    stream = LiveStream.open(config, batch=BatchSize(sequences=32), repeat=True)
    for batch in stream:                      # ActivationBatch: activations by hook point, tokens, places
        step(batch.activations["resid_pre.15"])
        checkpoint["stream"] = stream.state_dict()

`CachedStream(ActivationCache(folder), batch=BatchSize(tokens=8192))` reads such batches from a cache. Training code
depends on `ActivationStream` only, so both work. The modules, in the order in which data flows:

    models, tokenizer     a language model from the hub, a folder, a GGUF file, or the embedded one
    hook_points, forward  names of places in it, and a forward pass that stops at the last of them
    token_rules           which tokens are kept
    batches, live_stream  batches with a cursor
    provenance            where they came from
    harvesting            write activations to disk, by one worker or several
    storage               the files of a cache
    cache                 read them back
    reading, sources      `quadric.harvest`, and everything else that counts as activations
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
