"""Whole runs as functions that return a RunConfig: the paper's, and a smaller one for a CPU.

A recipe is a scale (how large, how long) laid over a grid (hook points × priors × alphas × seeds).
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

from quadric.activations import ActivationConfig, find_model, parse_hook_points
from quadric.activations.models import load_shape
from quadric.corpus import CorpusConfig
from quadric.runs.config import RunConfig
from quadric.training import AutoencoderConfig, TrainingConfig

Dictionary = Literal["atomic", "composite", "quadratic", "topk", "batch_topk"]
"""A prior, or one of the linear baselines."""

FINEWEB = CorpusConfig(source="HuggingFaceFW/fineweb", subset="sample-10BT")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the dictionaries are and how long they are trained; the defaults are the paper's."""

    n_latents: int = 8192
    n_hidden: int | None = None
    """Atoms; twice the latents if left out. An atomic dictionary has as many as latents, whatever is said here."""
    mixing_density: float = 0.001
    n_active: int = 32
    # The paper names 2¹¹ steps of 32 × 256 tokens and "8M tokens"; the steps make 16.8 M. The steps stand.
    steps: int = 2048
    alpha_warmup_steps: int = 256
    sequences_per_step: int = 32
    epochs: int = 1
    checkpoint_every: int = 256
    keep_checkpoints: int = 2


PAPER = Scale()
# Fits the embedded text once; on a CPU most of the time is the language model's.
SMALL = Scale(
    n_latents=1024, mixing_density=0.002, steps=200, alpha_warmup_steps=32, sequences_per_step=16, checkpoint_every=50
)
# A first look in five minutes: activations of few tokens, read often. Denser mixing than the paper's, since 0.1 % of
# so small a C would leave a latent one atom.
DEMO = Scale(
    n_latents=512, mixing_density=0.006, steps=300, alpha_warmup_steps=40, sequences_per_step=16, epochs=12,
    checkpoint_every=100,
)  # fmt: skip
DEMO_TOKENS = 110_000


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What varies between the autoencoders of a run; one is trained for every combination."""

    dictionaries: tuple[Dictionary, ...] = ("composite",)
    alphas: tuple[float, ...] = (0.3,)
    """Of the bilinear ones; the baselines have none."""
    seeds: tuple[int, ...] = (0,)


class PaperModel(NamedTuple):
    """A language model of the paper, by its name on the hub."""

    hub_id: str
    d_model: int
    n_layers: int


# The paper prints the name Qwen3.5-0.8B-Base and links to Qwen/Qwen3.5-0.8B; the printed name stands.
PAPER_MODELS = {
    "qwen": PaperModel("Qwen/Qwen3.5-0.8B-Base", 1024, 24),
    "gemma": PaperModel("google/gemma-3-1b-pt", 1152, 26),
    "llama": PaperModel("meta-llama/Llama-3.2-1B", 2048, 16),
}
PAPER_DICTIONARIES: tuple[Dictionary, ...] = ("atomic", "composite", "quadratic", "topk")


def paper_qwen(
    model: str = PAPER_MODELS["qwen"].hub_id, *, corpus: CorpusConfig = FINEWEB, scale: Scale = PAPER
) -> RunConfig:
    """The paper's main experiment: even layers of Qwen 3.5 0.8B (d = 1,024), three priors and TopK with K = 32."""
    return _paper_run(model, corpus, scale)


def paper_gemma(
    model: str = PAPER_MODELS["gemma"].hub_id, *, corpus: CorpusConfig = FINEWEB, scale: Scale = PAPER
) -> RunConfig:
    """The same on Gemma 3 1B (d = 1,152).

    The paper swept "selected layers" without naming them, so these are the even ones. Its caption speaks of k = 16k,
    its table of 8,192 latents and 16,384 hidden dimensions across models; the table stands.
    """
    return _paper_run(model, corpus, scale)


def paper_llama(
    model: str = PAPER_MODELS["llama"].hub_id, *, corpus: CorpusConfig = FINEWEB, scale: Scale = PAPER
) -> RunConfig:
    """The same on Llama 3.2 1B (d = 2,048), on even layers, since the paper does not name the ones it selected."""
    return _paper_run(model, corpus, scale)


def _paper_run(model: str, corpus: CorpusConfig, scale: Scale) -> RunConfig:
    activations = ActivationConfig(model=model, hook_points=even_layers(model), corpus=corpus)
    return make_run_config(scale, activations, Grid(dictionaries=PAPER_DICTIONARIES))


def even_layers(model: str, revision: str | None = None) -> str:
    """Every second layer of a model, from the first: the residual stream into each."""
    return ",".join(map(str, range(0, load_shape(find_model(model, revision)).n_layers, 2)))


def paper(model: str, layers: str, *, corpus: CorpusConfig = FINEWEB, grid: Grid | None = None) -> RunConfig:
    """The paper's hyperparameters on any model: k = 8,192, h = 16,384, 2,048 steps of 32 × 256 tokens."""
    return make_run_config(PAPER, ActivationConfig(model=model, hook_points=layers, corpus=corpus), grid or Grid())


def small(
    model: str = "smollm2", layers: str = "15", *, corpus: CorpusConfig | None = None, grid: Grid | None = None
) -> RunConfig:
    """The same recipe at a size for two CPU cores: k = 1,024, h = 2,048, 200 steps of 16 × 256 tokens."""
    return make_run_config(
        SMALL, ActivationConfig(model=model, hook_points=layers, corpus=corpus or CorpusConfig()), grid or Grid()
    )


def demo(cache: str) -> RunConfig:
    """The embedded model and text at a size for five minutes: k = 512, h = 1,024, 300 steps from stored activations."""
    return make_run_config(DEMO, ActivationConfig(hook_points="15"), Grid(), cache=cache)


def make_run_config(scale: Scale, activations: ActivationConfig, grid: Grid, *, cache: str | None = None) -> RunConfig:
    """Lay a scale over a grid."""
    return RunConfig(
        activations=activations,
        autoencoders=autoencoders(_canonical(activations), scale, grid),
        training=TrainingConfig(
            steps=scale.steps,
            alpha_warmup_steps=scale.alpha_warmup_steps,
            checkpoint_every=scale.checkpoint_every,
            keep_checkpoints=scale.keep_checkpoints,
        ),
        sequences_per_step=scale.sequences_per_step,
        epochs=scale.epochs,
        cache=cache,
    )


def _canonical(activations: ActivationConfig) -> tuple[str, ...]:
    """The hook points by their stored names; the model's shape is read for it, and no text."""
    shape = load_shape(find_model(activations.model, activations.model_revision))
    return tuple(map(str, parse_hook_points(activations.hook_points, shape.n_layers)))


def autoencoders(hook_points: tuple[str, ...], scale: Scale, grid: Grid) -> tuple[AutoencoderConfig, ...]:
    """One for every combination that makes a difference."""
    found: dict[str, AutoencoderConfig] = {}
    for hook_point, dictionary, alpha, seed in product(hook_points, grid.dictionaries, grid.alphas, grid.seeds):
        config = _autoencoder(scale, AutoencoderConfig(hook_point=hook_point, alpha=alpha, seed=seed), dictionary)
        found[config.name] = config
    return tuple(found.values())


def _autoencoder(scale: Scale, config: AutoencoderConfig, dictionary: Dictionary) -> AutoencoderConfig:
    if dictionary == "topk" or dictionary == "batch_topk":
        return replace(config, kind=dictionary, n_latents=scale.n_latents, n_active=scale.n_active, alpha=0.0)
    return replace(
        config,
        prior=dictionary,
        n_latents=scale.n_latents,
        n_hidden=None if dictionary == "atomic" else scale.n_hidden,
        mixing_density=scale.mixing_density,
    )
