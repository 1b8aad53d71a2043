"""Recipes: functions that return a complete RunConfig, for the paper's experiments and for smaller ones on a CPU.

A recipe combines a scale (how large, how long) with a grid (hook points × priors × alphas × seeds).
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from quadric.data import ActivationConfig, find_model, parse_hook_points
from quadric.data.corpus import CorpusConfig
from quadric.data.models import load_shape
from quadric.model.bilinear import default_hidden
from quadric.run.config import RunConfig
from quadric.run.scales import DEMO, PAPER, SMALL, Dictionary, Grid, Scale
from quadric.train import AutoencoderConfig, TrainingConfig

FINEWEB = CorpusConfig(source="HuggingFaceFW/fineweb", subset="sample-10BT")


class PaperModel(NamedTuple):
    """A language model of the paper, by its name on the hub."""

    hub_id: str
    d_model: int
    n_layers: int


# The paper prints the name Qwen3.5-0.8B-Base and links to Qwen/Qwen3.5-0.8B; we use the printed name.
PAPER_MODELS = {
    "qwen": PaperModel("Qwen/Qwen3.5-0.8B-Base", 1024, 24),
    "gemma": PaperModel("google/gemma-3-1b-pt", 1152, 26),
    "llama": PaperModel("meta-llama/Llama-3.2-1B", 2048, 16),
}
PAPER_GRID = Grid(dictionaries=("atomic", "composite", "quadratic", "topk"))
EVEN = "even"
"""Value of `layers` for every second layer."""


def paper_qwen(
    model: str = PAPER_MODELS["qwen"].hub_id,
    *,
    corpus: CorpusConfig = FINEWEB,
    scale: Scale = PAPER,
    grid: Grid = PAPER_GRID,
    layers: str = EVEN,
    **reading: Any,
) -> RunConfig:
    """The paper's main experiment: even layers of Qwen 3.5 0.8B (d = 1,024), three priors and TopK with K = 32.

    Args:
        model: Location of the model, if not on the hub.
        corpus: The text; the paper's is FineWeb.
        scale: Sizes and number of steps.
        grid: Priors, alphas and seeds.
        layers: Comma-separated hook points, or `even` for every second layer.
        reading: Further fields of `ActivationConfig`, such as `rules`.

    Example:
        config = paper_qwen(layers="18", scale=SMALL)
    """
    return _paper_run(model, corpus, scale, grid, layers, reading)


def paper_gemma(
    model: str = PAPER_MODELS["gemma"].hub_id,
    *,
    corpus: CorpusConfig = FINEWEB,
    scale: Scale = PAPER,
    grid: Grid = PAPER_GRID,
    layers: str = EVEN,
    **reading: Any,
) -> RunConfig:
    """The same experiment on Gemma 3 1B (d = 1,152); arguments as in `paper_qwen`.

    The paper swept "selected layers" without naming them; this recipe uses the even ones. The paper's caption says
    k = 16k, its table 8,192 latents and 16,384 hidden dimensions across models; this recipe follows the table.
    """
    return _paper_run(model, corpus, scale, grid, layers, reading)


def paper_llama(
    model: str = PAPER_MODELS["llama"].hub_id,
    *,
    corpus: CorpusConfig = FINEWEB,
    scale: Scale = PAPER,
    grid: Grid = PAPER_GRID,
    layers: str = EVEN,
    **reading: Any,
) -> RunConfig:
    """The same experiment on Llama 3.2 1B (d = 2,048); even layers, since the paper does not name its selected ones."""
    return _paper_run(model, corpus, scale, grid, layers, reading)


PAPER_RECIPES: dict[str, Callable[..., RunConfig]] = {"qwen": paper_qwen, "gemma": paper_gemma, "llama": paper_llama}
"""Recipes keyed by the value of `quadric sweep --paper`."""


def _paper_run(
    model: str, corpus: CorpusConfig, scale: Scale, grid: Grid, layers: str, reading: dict[str, Any]
) -> RunConfig:
    activations = ActivationConfig(model=model, hook_points=layers, corpus=corpus, **reading)
    return make_run_config(scale, with_layers(activations, layers), grid)


def with_layers(activations: ActivationConfig, layers: str) -> ActivationConfig:
    """The same activations at other hook points; `even` is every second layer of the model."""
    if layers == EVEN:
        layers = even_layers(activations.model, activations.model_revision)
    return replace(activations, hook_points=layers)


def even_layers(model: str, revision: str | None = None) -> str:
    """The residual stream into every second layer of a model, starting with layer 0."""
    return ",".join(map(str, range(0, load_shape(find_model(model, revision)).n_layers, 2)))


def paper(model: str, layers: str, *, corpus: CorpusConfig = FINEWEB, grid: Grid | None = None) -> RunConfig:
    """The paper's hyperparameters on any model: k = 8,192, h = 16,384, 2,048 steps of 32 × 256 tokens."""
    return make_run_config(PAPER, ActivationConfig(model=model, hook_points=layers, corpus=corpus), grid or Grid())


def small(
    model: str = "smollm2", layers: str = "15", *, corpus: CorpusConfig | None = None, grid: Grid | None = None
) -> RunConfig:
    """The paper's recipe at a size for two CPU cores: k = 1,024, h = 2,048, 200 steps of 16 × 256 tokens."""
    return make_run_config(
        SMALL, ActivationConfig(model=model, hook_points=layers, corpus=corpus or CorpusConfig()), grid or Grid()
    )


def demo(cache: str) -> RunConfig:
    """A five-minute run on the embedded model and text: k = 512, h = 1,024, 300 steps on stored activations."""
    return make_run_config(DEMO, ActivationConfig(hook_points="15"), Grid(), cache=cache)


def make_run_config(scale: Scale, activations: ActivationConfig, grid: Grid, *, cache: str | None = None) -> RunConfig:
    """A run that trains one autoencoder of the given scale for every combination in the grid."""
    return RunConfig(
        activations=activations,
        autoencoders=autoencoders(_canonical(activations), scale, grid),
        training=training_config(scale),
        sequences_per_step=scale.sequences_per_step,
        epochs=scale.epochs,
        cache=cache,
    )


def training_config(scale: Scale) -> TrainingConfig:
    """The training config of a scale."""
    return TrainingConfig(
        steps=scale.steps,
        alpha_warmup_steps=scale.alpha_warmup_steps,
        learning_rate=scale.learning_rate,
        learning_rate_decay=scale.learning_rate_decay,
        checkpoint_every=scale.checkpoint_every,
        keep_checkpoints=scale.keep_checkpoints,
    )


def _canonical(activations: ActivationConfig) -> tuple[str, ...]:
    """Canonical names of the hook points; this loads the model's shape, but reads no text."""
    shape = load_shape(find_model(activations.model, activations.model_revision))
    return tuple(map(str, parse_hook_points(activations.hook_points, shape.n_layers)))


def autoencoders(hook_points: tuple[str, ...], scale: Scale, grid: Grid) -> tuple[AutoencoderConfig, ...]:
    """One autoencoder per distinct combination; linear baselines do not depend on alpha, so alphas do not add any."""
    found: dict[str, AutoencoderConfig] = {}
    alphas = grid.alphas or (scale.alpha,)
    for hook_point, dictionary, alpha, seed in product(hook_points, grid.dictionaries, alphas, grid.seeds):
        config = _autoencoder(scale, AutoencoderConfig(hook_point=hook_point, alpha=alpha, seed=seed), dictionary)
        found[config.name] = config
    return tuple(found.values())


def _autoencoder(scale: Scale, config: AutoencoderConfig, dictionary: Dictionary) -> AutoencoderConfig:
    if dictionary == "topk" or dictionary == "batch_topk":
        return replace(config, kind=dictionary, n_latents=scale.n_latents, n_active=scale.n_active, alpha=0.0)
    hidden = None if dictionary == "atomic" else scale.n_hidden
    if dictionary == "composite":
        n_hidden = hidden or default_hidden(scale.n_latents, dictionary)
        density = scale.density_of(n_hidden)
        config = replace(config, mixing_density=density, initial_density=scale.initial_density)
    return replace(
        config,
        prior=dictionary,
        n_latents=scale.n_latents,
        n_hidden=hidden,
        lens=scale.lens,
        overlap_penalty=scale.overlap_penalty,
        top_latents=scale.top_latents,
        mean_penalty=scale.mean_penalty_of(scale.n_latents),
        tied=scale.tied,
        gradient_dtype=scale.gradient_dtype,
    )
