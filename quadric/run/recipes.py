"""Recipes: functions that return a complete RunConfig, for the paper's experiments and for smaller ones on a CPU.

A recipe says what differs from the defaults of the kinds, of their losses and of training. `cells` combines that with
hook points, kinds, weights and seeds. `auto` is resolved here, once; what a run stores are its cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from quadric.data.settings import ActivationConfig, CorpusConfig
from quadric.model.settings import Settings, field_names, settings_class
from quadric.model.terms import Density, Term, term_class
from quadric.train.settings import PAPER_RATE, Cell, Training

if TYPE_CHECKING:
    from quadric.run.config import RunConfig

FINEWEB = CorpusConfig(source="HuggingFaceFW/fineweb", subset="sample-10BT")
EVEN = "even"
"""Value of `layers` for every second layer."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run has where nothing else was asked for."""

    settings: Mapping[str, Any]
    """Of every kind that has them."""
    loss: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the kinds' own losses, as `changed_loss` takes them."""
    training: Training
    sequences_per_step: int = 32
    """Sequences per batch, over all processes together."""
    epochs: int = 1
    """How many times the text may be read; the number of steps determines how much of it is."""


PAPER = Recipe(
    # The paper names 2¹¹ steps of 32 × 256 tokens and "8M tokens"; the steps make 16.8 M. We keep the steps.
    settings={"n_latents": 8192, "lens": "paper", "atoms_per_latent": 16.384, "initial_density": 1.0},
    training=Training(steps=2048, learning_rate=PAPER_RATE, learning_rate_decay=0.0),
)
"""The paper's sizes and its method as printed."""
LARGE = Recipe(settings={"n_latents": 8192}, training=Training(steps=2048))
"""The paper's sizes, for an accelerator."""
# Reads the embedded text once; on a CPU the language model takes most of the time.
SMALL = Recipe(settings={"n_latents": 1024}, training=Training(steps=200), sequences_per_step=16)
# Five minutes on two cores: few tokens, read many times.
DEMO = Recipe(
    settings={"n_latents": 512}, loss={"density.warmup": 40}, training=Training(checkpoint_every=100),
    sequences_per_step=16, epochs=12,
)  # fmt: skip
DEMO_TOKENS = 110_000
RECIPES = {"small": SMALL, "large": LARGE, "paper": PAPER}
RecipeName = Literal["auto", "small", "large", "paper"]


def recipe_of(name: str, device: str = "auto") -> Recipe:
    """The recipe of this name; auto is small on a CPU and large on an accelerator."""
    if name == "auto":
        from quadric.data.models import chosen_device

        name = "small" if chosen_device(device).type == "cpu" else "large"
    if name not in RECIPES:
        raise ValueError(f"recipe={name!r} is unknown; choose one of auto, {', '.join(RECIPES)}")
    return RECIPES[name]


def cells(
    hook_points: Sequence[str],
    kinds: Sequence[str | Settings] = ("composite",),
    *,
    recipe: Recipe | None = None,
    settings: Mapping[str, Any] | None = None,
    loss: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = (),
    seeds: Sequence[int] = (0,),
) -> tuple[Cell, ...]:
    """One cell for every combination; kinds whose loss has no density do not multiply with alphas.

    Args:
        hook_points: canonical names.
        kinds: names of kinds, or settings as they are.
        recipe: what holds where nothing else is given; the defaults of the kinds if there is none.
        settings: changes; each goes to the kinds that have it, and one that none has is an error.
        loss: changes of the kinds' own losses, see `changed_loss`.
        alphas: weights of the density.
        seeds: of the initial weights.

    Returns:
        The cells, in the order of their combinations.

    Example:
        >>> from quadric.run.recipes import cells
        >>> [cell.settings.kind for cell in cells(["rows"], ["atomic", "topk"], settings={"n_latents": 64})]
        ['atomic', 'topk']
    """
    base, changes = recipe or Recipe(settings={}, training=Training()), dict(settings or {})
    chosen = [_settings(kind, base.settings, changes) for kind in kinds]
    known = {name for each in chosen for name in field_names(type(each))}
    if unused := [f"{name}={value}" for name, value in changes.items() if name not in known]:
        kinds_named = ", ".join(each.kind for each in chosen)
        raise ValueError(f"{', '.join(unused)} has no meaning for {kinds_named}; leave it out")
    made: list[Cell] = []
    for hook_point, each, alpha, seed in product(hook_points, chosen, alphas or (None,), seeds):
        terms = changed_loss(each.default_loss(), {**base.loss, **(loss or {})}, added=loss or {})
        if alpha is not None and any(isinstance(term, Density) and term.weight for term in terms):
            terms = changed_loss(terms, {"density": alpha})
        cell = Cell(hook_point=hook_point, settings=each, loss=terms, seed=seed)
        made += [] if cell in made else [cell]  # kinds without a density are the same cell for every alpha
    return tuple(made)


def _settings(kind: str | Settings, base: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """The settings of a kind: the recipe's where it has them, with the changes that it has a field for."""
    if isinstance(kind, Settings):
        return replace(kind, **{name: value for name, value in changes.items() if name in field_names(type(kind))})
    made = settings_class(kind)
    given = {**base, **changes}
    return made(**{name: given[name] for name in field_names(made) if name in given})


def changed_loss(
    terms: Iterable[Term], changes: Mapping[str, Any], *, added: Iterable[str] | None = None
) -> tuple[Term, ...]:
    """A loss with some settings changed: `density` is the weight of that term, `density.warmup` its field.

    Args:
        terms: the loss.
        changes: value by name.
        added: names whose terms are added if the loss lacks them; others of the changes are then left out. All by
            default.

    Returns:
        The terms, new ones last.

    Example:
        >>> from quadric.run.recipes import changed_loss
        >>> changed_loss(quadric.paper_loss(), {"density": 0.1, "error.top": 32})
        (Error(weight=1.0, top=32), Density(weight=0.1, warmup=None))
    """
    found = {term.name: term for term in terms}
    for name, value in changes.items():
        term_name, _, field_name = name.partition(".")
        if term_name not in found:
            if added is not None and name not in set(added):
                continue
            found[term_name] = term_class(term_name)()
        term, field_name = found[term_name], field_name or "weight"
        if field_name not in (known := [each.name for each in fields(term)]):
            raise ValueError(f"{name}={value!r}: the term {term_name} has {', '.join(known)}, and no {field_name}")
        found[term_name] = replace(term, **{field_name: value})
    return tuple(found.values())


def run_of(
    recipe: Recipe,
    activations: ActivationConfig,
    kinds: Sequence[str | Settings] = ("composite",),
    *,
    cache: str | None = None,
    **combined: Any,
) -> "RunConfig":
    """A run on these activations by recipe; `combined` are further arguments of `cells`."""
    # Imported here: flags are made from the recipes above, and help must not wait for torch.
    from quadric.run.config import RunConfig

    return RunConfig(
        activations=activations,
        cells=cells(canonical_hook_points(activations), kinds, recipe=recipe, **combined),
        training=recipe.training,
        sequences_per_step=recipe.sequences_per_step,
        epochs=recipe.epochs,
        cache=cache,
    )


def canonical_hook_points(activations: ActivationConfig) -> tuple[str, ...]:
    """Canonical names of the hook points; this loads the model's shape, but reads no text."""
    from quadric.data import find_model, parse_hook_points
    from quadric.data.models import load_shape

    shape = load_shape(find_model(activations.model, activations.model_revision))
    return tuple(map(str, parse_hook_points(activations.hook_points, shape.n_layers)))


def with_layers(activations: ActivationConfig, layers: str) -> ActivationConfig:
    """The same activations at other hook points; `even` is the residual stream into every second layer, from 0 on."""
    if layers == EVEN:
        from quadric.data import find_model
        from quadric.data.models import load_shape

        n_layers = load_shape(find_model(activations.model, activations.model_revision)).n_layers
        layers = ",".join(map(str, range(0, n_layers, 2)))
    return replace(activations, hook_points=layers)


# The paper prints the name Qwen3.5-0.8B-Base and links to Qwen/Qwen3.5-0.8B; we use the printed name. For Gemma and
# Llama it swept "selected layers" without naming them; the even ones are used. Gemma's caption says k = 16k, the table
# 8,192 latents and 16,384 hidden dimensions across models; the table is followed.
PAPER_MODELS = {
    "qwen": "Qwen/Qwen3.5-0.8B-Base",
    "gemma": "google/gemma-3-1b-pt",
    "llama": "meta-llama/Llama-3.2-1B",
}
PAPER_KINDS = ("atomic", "composite", "quadratic", "topk")


def paper(
    model: str = "qwen",
    layers: str = EVEN,
    kinds: Sequence[str | Settings] = PAPER_KINDS,
    *,
    corpus: CorpusConfig = FINEWEB,
    **combined: Any,
) -> "RunConfig":
    """The paper's hyperparameters: k = 8,192, h = 16,384, 2,048 steps of 32 × 256 tokens, three priors
    and TopK with K = 32.

    Args:
        model: `qwen`, `gemma` or `llama`, the paper's own models; or any other.
        layers: Comma-separated hook points, or `even` for every second layer.
        kinds: What is trained at each of them.
        corpus: The text; the paper's is FineWeb.
        combined: Further arguments of `cells`, such as `alphas` and `seeds`.

    Returns:
        A run for `quadric.run.running.new_run`; `quadric sweep --paper` trains it.
    """
    config = ActivationConfig(model=PAPER_MODELS.get(model, model), hook_points=layers, corpus=corpus)
    activations = with_layers(config, layers)
    return run_of(PAPER, activations, kinds, **combined)


def demo(cache: str) -> "RunConfig":
    """A five-minute run on the embedded model and text: k = 512, h = 1,024, 300 steps on stored activations."""
    return run_of(DEMO, ActivationConfig(hook_points="15"), cache=cache)
