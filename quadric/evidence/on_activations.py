"""`quadric.collect_evidence`: what activations say about every latent, in one call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quadric._io.progress import progress_bar
from quadric.data.sources import Activations, ActivationsInMemory, ActivationsOnDisk, as_activations
from quadric.data.tokenizer import Tokenizer
from quadric.evidence.collecting import collect_in_memory
from quadric.evidence.record import Evidence, EvidenceSettings
from quadric.evidence.text import CachedText, HarvestedText, RowText, TextSource, text_behind
from quadric.model import Dictionary

BATCH_TOKENS = 4096


def collect_evidence(
    autoencoder: Dictionary,
    x: Any,
    *,
    texts: Sequence[str] | None = None,
    tokens: int | None = None,
    points: int = 2000,
    tokenizer: Any = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Evidence:
    """Show activations to every latent and keep what they say: points, contexts, firing statistics, labels.

    Args:
        autoencoder: Any dictionary: of a linear one, z are the activations after its gate.
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or what `quadric.harvest` returned.
        texts: One string for every row of a tensor, shown where a token's text would be; by default its number.
        tokens: Rows to read; all by default.
        points: Points to keep per latent, drawn with weights (|z − rest| + ε)⁴.
        tokenizer: The tokenizer behind a cache folder whose language model cannot be found by its recorded name.
        out: A folder to save the evidence in; `quadric.Evidence.load` reads it.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        The evidence, for `quadric.latents`, `show`, `export_site` and `view`.

    Example:
        >>> evidence = quadric.collect_evidence(ae, torch.randn(500, 32))
        >>> evidence.n_tokens
        500
    """
    source = as_activations(x, texts)
    n_tokens = tokens if tokens is not None else length_of(source)
    stream = source.stream(batch_tokens=BATCH_TOKENS, seed=None)
    with progress_bar(shown=progress) as report:
        evidence = collect_in_memory(
            autoencoder,
            stream,
            text_of(source, stream, n_tokens, tokenizer),
            n_tokens=n_tokens,
            settings=EvidenceSettings(n_points=points),
            on_progress=report,
        )
    if out is not None:
        evidence.save(out)
    return evidence


def length_of(source: Activations) -> int:
    """How many rows there are; an error where nobody knows."""
    if isinstance(source, ActivationsInMemory | ActivationsOnDisk):
        return len(source)
    raise ValueError("an iterable of tensors does not say how many rows it has; give tokens=")


def text_of(source: Activations, stream: Any, n_tokens: int, tokenizer: Any = None) -> TextSource:
    """The text behind the rows."""
    if isinstance(source, ActivationsOnDisk):
        return text_behind(stream) if tokenizer is None else CachedText(source.cache, Tokenizer(tokenizer))
    if tokenizer is not None:
        raise ValueError("tokenizer= is for a cache folder; leave it out")
    if isinstance(source, ActivationsInMemory) and source.sequences:
        return HarvestedText(source)
    if isinstance(source, ActivationsInMemory):
        return RowText(len(source), source.texts)
    return RowText(n_tokens)
