"""`quadric.harvest`: activations of a language model on some text, in one call."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from quadric._io.progress import Progress, progress_bar
from quadric.data.batches import BatchSize, concatenated
from quadric.data.corpus import CorpusConfig, CorpusError, CorpusIdentity, Document
from quadric.data.harvesting import HarvestConfig, fill_folder
from quadric.data.live_stream import ForwardPass, LiveStream
from quadric.data.models import (
    LanguageModel,
    ModelSource,
    chosen_device,
    find_model,
    load_model,
    model_in_memory,
    shape_of,
)
from quadric.data.provenance import ActivationConfig, provenance_of
from quadric.data.sources import Activations, ActivationsInMemory, ActivationsOnDisk, SequenceText
from quadric.data.token_rules import TokenRules

DEFAULT_TOKENS = 100_000
IN_MEMORY = "texts in memory"


def harvest(
    model: Any = "smollm2",
    texts: str | Path | Sequence[str] = "wiki-leads",
    *,
    layer: int | str | Sequence[int | str],
    tokenizer: Any = None,
    tokens: int | None = None,
    block_length: int = 256,
    sequences_per_forward: int = 8,
    rules: TokenRules | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Activations:
    """Run a language model over text and keep the activations at one or several layers.

    Args:
        model: The embedded `smollm2`, a hub id, a folder, a `.gguf` file, or a `transformers` model in memory.
        texts: A corpus name (`wiki-leads`, `wikitext-2`), a file, folder or glob, a hub dataset `owner/name`, or a list
            of strings. Strings are read in order, each as a separate sequence; a corpus is read as in `quadric train`:
            its training documents, shuffled and packed into blocks.
        layer: Hook point: `15` is the residual stream into layer 15; also `"resid_mid.5"` or `"mlp_out.3"`; or a list
            of these.
        tokenizer: Tokenizer, required for a model in memory.
        tokens: Number of token vectors to keep; by default all of a list of strings, and 100,000 of a corpus.
        block_length: Tokens per sequence.
        sequences_per_forward: Sequences per forward pass.
        rules: Which tokens are kept; by default BOS, special tokens and attention sinks are dropped.
        out: Folder to store the activations in; the same call resumes an interrupted harvest. By default they stay in
            memory.
        device: `cpu`, `cuda`, …; a model in memory stays on its device.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        `Activations`: `len(acts)` rows, `acts.vectors` if they are in memory, ready for `fit`, `evaluate` and
        `collect_evidence`.

    Example:
        >>> acts = quadric.harvest("my-model", ["Monday comes before Tuesday."], layer=2)
        >>> acts.vectors.shape
        torch.Size([28, 32])
        >>> acts = quadric.harvest(model, "texts.jsonl", layer=[1, "mlp_out.2"], tokenizer=tokenizer, tokens=500)
        >>> acts["mlp_out.2"].shape
        torch.Size([500, 32])
    """
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens={tokens} is not positive; give at least 1")
    if isinstance(texts, str | Path):
        tokens = tokens or DEFAULT_TOKENS
        documents, identity = None, None
        corpus = CorpusConfig(source=str(texts), block_length=block_length)
    else:
        documents = _documents(texts)
        identity = _identity(documents)
        corpus = CorpusConfig(
            source=IN_MEMORY, block_length=block_length, packing="separate", held_out_fraction=0.0, seed=None
        )
    config = ActivationConfig(
        model=model if isinstance(model, str) else "in memory",
        hook_points=",".join(map(str, [layer] if isinstance(layer, int | str) else layer)),
        corpus=corpus,
        rules=rules or TokenRules(),
        sequences_per_forward=sequences_per_forward,
    )
    with progress_bar(shown=progress) as report, _loaded(model, tokenizer, device) as loaded:
        source = ModelSource(loaded.name, loaded.revision, location="")
        described = provenance_of(config, source, shape_of(loaded), str(chosen_device(device)), identity)
        provenance = replace(described, model_dtype=loaded.dtype)

        def open_stream() -> LiveStream:
            batch = BatchSize(sequences=1)
            return LiveStream(config, loaded, batch=batch, provenance=provenance, documents=documents)

        if out is None:
            return _in_memory(open_stream(), tokens, report)
        storage = HarvestConfig(tokens=tokens or _most_tokens(documents or [], loaded))
        fill_folder(Path(out), storage, provenance, loaded.d_model, sequences_per_forward, open_stream, report)
        return ActivationsOnDisk(out)


def _documents(texts: Sequence[str]) -> list[Document]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise CorpusError(f"text {number} is a {type(text).__name__}; give a list of strings, or one path or name")
    documents = [Document(number, text) for number, text in enumerate(texts) if text.strip()]
    if not documents:
        raise CorpusError(f"all {len(texts)} texts are empty or white space; give at least one with words")
    return documents


def _identity(documents: Sequence[Document]) -> CorpusIdentity:
    """Strings in memory are known by their hash."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.text.encode("utf-8", "surrogatepass") + b"\0")
    return CorpusIdentity(IN_MEMORY, f"sha256:{digest.hexdigest()}")


def _most_tokens(documents: Sequence[Document], model: LanguageModel) -> int:
    """An upper bound for the tokens of strings in memory: every token, and a BOS before each of its blocks."""
    encoded = model.tokenizer.encode([document.text for document in documents])
    return max(1, 2 * sum(map(len, encoded)) + len(encoded))


@contextmanager
def _loaded(model: Any, tokenizer: Any, device: str) -> Iterator[LanguageModel]:
    """The language model, in eval mode inside the `with` block and in its previous mode afterwards."""
    if isinstance(model, str | Path):
        if tokenizer is not None:
            raise ValueError(f"tokenizer= is for a model in memory; '{model}' has its own tokenizer, leave it out")
        yield load_model(find_model(str(model)), device=device)
        return
    loaded = model if isinstance(model, LanguageModel) else model_in_memory(model, tokenizer)
    was_training = loaded.causal.training
    loaded.causal.eval()
    try:
        yield loaded
    finally:
        loaded.causal.train(was_training)


def _in_memory(stream: LiveStream, tokens: int | None, on_progress: Progress) -> ActivationsInMemory:
    passes, n_rows = list[ForwardPass](), 0
    for forward in stream.passes():
        passes.append(replace(forward, batch=forward.batch.on_host()))
        n_rows += len(forward.batch)
        on_progress("harvest", n_rows if tokens is None else min(n_rows, tokens), tokens or n_rows, "tokens")
        if tokens is not None and n_rows >= tokens:
            break
    batch = concatenated([forward.batch for forward in passes]).rows(0, tokens or n_rows)
    sequences = [sequence for forward in passes for sequence in _sequences(forward)]
    return ActivationsInMemory(batch, stream.provenance, sequences, stream.model.tokenizer)


def _sequences(forward: ForwardPass) -> Iterator[SequenceText]:
    read = forward.sequences
    for tokens, documents, mask in zip(read.tokens.cpu(), read.documents.cpu(), read.mask.cpu(), strict=True):
        yield SequenceText(tokens[mask].to(torch.int32).numpy(), documents[mask].to(torch.int32).numpy())
