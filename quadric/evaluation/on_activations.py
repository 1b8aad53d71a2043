"""`quadric.evaluate`: how good a dictionary is on activations that it was not trained on."""

from typing import Any

from quadric._io.progress import progress_bar
from quadric.data.sources import as_activations
from quadric.evaluation.measures import ErrorAccumulator
from quadric.evaluation.record import Evaluation, lens_of
from quadric.model import Dictionary

BATCH_TOKENS = 4096


def evaluate(
    autoencoder: Dictionary,
    x: Any,
    *,
    hook_point: str | None = None,
    tokens: int | None = None,
    progress: bool = True,
) -> Evaluation:
    """Measure error, density, dense and dead latents on activations.

    Args:
        autoencoder: Any dictionary, also of a kind of your own.
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or what `quadric.harvest` returned. Give rows
            that were not trained on.
        hook_point: Which hook point to read, where the activations have several; by default the autoencoder's own.
        tokens: Rows to measure on; all by default.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        An `Evaluation`: prints as a short table, `to_dict()`, `to_pandas()`, and its numbers by name (`error`,
        `density`, `dense_share`, `dead_share`).

    Example:
        >>> report = quadric.evaluate(ae, torch.randn(500, 32))
        >>> report.error < 1
        True
    """
    source = as_activations(x)
    own = autoencoder.provenance.hook_point
    point = source.sole_hook_point(hook_point or (own if own in source.hook_points else None))
    accumulator = ErrorAccumulator(autoencoder)
    total = getattr(source, "__len__", lambda: tokens or 0)()
    with progress_bar(shown=progress) as report:
        for batch in source.stream(batch_tokens=BATCH_TOKENS, seed=None):
            batch = batch if tokens is None else batch.rows(0, tokens - accumulator.n_tokens)
            vectors = batch.activations[point].to(next(autoencoder.parameters()).device)
            accumulator.add(vectors, batch.sequences, batch.positions)
            report("evaluate", accumulator.n_tokens, tokens or total, "tokens")
            if tokens is not None and accumulator.n_tokens >= tokens:
                break
    return Evaluation(
        run="",
        name="",
        kind=autoencoder.kind,
        lens=lens_of(autoencoder),
        n_latents=autoencoder.n_latents,
        n_hidden=getattr(autoencoder, "n_hidden", None),
        hook_point=point,
        measures=accumulator.measures(),
        recovered=None,
    )
