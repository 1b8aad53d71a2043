"""Find all concepts in all autoencoders of some runs, loading the language model once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from quadric.activations import find_model, load_model, parse_hook_point
from quadric.activations.config import config_from
from quadric.activations.provenance import ProvenanceError
from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.autoencoders.topk import LinearAutoencoder
from quadric.concepts.capturing import Capture, Directions, capture_by_directions, capture_by_forms, concept_variance
from quadric.concepts.reading import concept_vectors
from quadric.concepts.words import CONCEPTS, Concept
from quadric.evaluation.record import kind_of


class Named(NamedTuple):
    """An autoencoder and its display name."""

    name: str
    autoencoder: Autoencoder


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One concept in one autoencoder."""

    concept: str
    words: int
    autoencoder: str
    kind: str
    hook_point: str
    best: Capture | Directions

    @property
    def link(self) -> str | None:
        """Address of the latent in the viewer; None for a linear dictionary, which has no pages."""
        return f"#/latent/{self.best.latent}" if isinstance(self.best, Capture) else None

    def as_row(self) -> dict[str, Any]:
        """One flat table row."""
        own = {name: getattr(self, name) for name in ("concept", "words", "autoencoder", "kind", "hook_point")}
        return own | {"rank": 1, "untrained": None} | self.best._asdict() | {"link": self.link}


def find_concepts(
    autoencoders: Sequence[Named],
    *,
    concepts: Sequence[Concept] = CONCEPTS,
    model: str | None = None,
    device: str = "auto",
    on_progress: Callable[[int], None] = lambda finished: None,
) -> list[Finding]:
    """The best latent of every autoencoder for each concept.

    All autoencoders must have been trained on the same language model.
    """
    variances = _variances(autoencoders, concepts, model, device)
    found = []
    for name, autoencoder in autoencoders:
        hook_point = autoencoder.provenance.hook_point
        assert hook_point is not None
        best = _best(autoencoder, variances[hook_point])
        found += [
            Finding(
                concept=concept.name,
                words=len(concept.words),
                autoencoder=name,
                kind=kind_of(autoencoder),
                hook_point=hook_point,
                best=each,
            )
            for concept, each in zip(concepts, best, strict=True)
        ]
        on_progress(1)
    order = [concept.name for concept in concepts]
    return sorted(found, key=lambda each: order.index(each.concept))


def _best(autoencoder: Autoencoder, variances: list[Tensor]) -> list[Capture | Directions]:
    if isinstance(autoencoder, BilinearAutoencoder):
        return [*capture_by_forms(autoencoder, variances)]
    assert isinstance(autoencoder, LinearAutoencoder)
    return [*capture_by_directions(autoencoder.decoder.detach().cpu(), variances)]


def _variances(
    autoencoders: Sequence[Named], concepts: Sequence[Concept], model: str | None, device: str
) -> dict[str, list[Tensor]]:
    """S of every concept, keyed by hook point."""
    if not autoencoders:
        raise ValueError("no autoencoder to search; give at least one run")
    configs = [config_from(each.autoencoder.provenance, model=model) for each in autoencoders]
    source = find_model(configs[0].model, configs[0].model_revision)
    for name, autoencoder in autoencoders:
        if autoencoder.provenance.model_revision != source.revision:
            raise ProvenanceError(
                f"{name} was trained on {autoencoder.provenance.model} "
                f"({autoencoder.provenance.model_revision}), not on {source.name} ({source.revision}); search runs "
                "of one language model at a time, or give its location with --model"
            )
    loaded = load_model(source, device=device, dtype=configs[0].model_dtype)
    points = sorted({parse_hook_point(config.hook_points, loaded.n_layers) for config in configs})
    found: dict[str, list[Tensor]] = {str(point): [] for point in points}
    for concept in concepts:
        for name, vectors in concept_vectors(loaded, points, configs[0].rules, concept).items():
            found[name].append(concept_variance(vectors))
    return found
