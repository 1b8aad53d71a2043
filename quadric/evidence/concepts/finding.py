"""Find all concepts in all autoencoders of some runs, at the activations of a language model that is loaded once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.data import (
    BatchSize,
    LanguageModel,
    LiveStream,
    TokenRules,
    find_model,
    load_model,
    parse_hook_point,
)
from quadric.data.forward import capture
from quadric.data.hook_points import HookPoint
from quadric.data.models import ModelSource, load_shape
from quadric.data.provenance import ProvenanceError, config_from, provenance_of
from quadric.data.tokenizer import Tokenizer
from quadric.evidence.concepts.measures import Capture, Detection, best_captures, concept_variance, detect
from quadric.evidence.concepts.words import CONCEPTS, Concept
from quadric.model import Dictionary
from quadric.model.objective import unit_tokens

CORPUS_TOKENS = 8192
"""Corpus tokens that detection compares with; half of them choose the latent."""
DETECTION_COLUMNS = ("detected_by", "detected_sign", "detected", "detected_chance")
"""The fields of `Detection` in a table row."""


class Named(NamedTuple):
    """An autoencoder and its display name."""

    name: str
    autoencoder: Dictionary


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One concept in one autoencoder."""

    concept: str
    words: int
    autoencoder: str
    kind: str
    hook_point: str
    best: Capture
    detection: Detection | None = None
    """How well a single latent, not necessarily the same one, detects the concept among corpus tokens."""

    @property
    def link(self) -> str | None:
        """Address of the latent in the viewer; None for a linear dictionary, which has no pages."""
        return None if self.best.untrained is None else f"#/latent/{self.best.latent}"

    def as_row(self) -> dict[str, Any]:
        """One flat table row."""
        own = {name: getattr(self, name) for name in ("concept", "words", "autoencoder", "kind", "hook_point")}
        first = {"rank": self.best.rank, "untrained": self.best.untrained}
        captured = first | self.best._asdict() | {"link": self.link}
        found = self.detection or (None,) * len(DETECTION_COLUMNS)
        return own | captured | dict(zip(DETECTION_COLUMNS, found, strict=True))


class ConceptTokens(NamedTuple):
    """What is known of one concept at one hook point."""

    vectors: Tensor
    """Activations (prompts, words, d), at their own length."""
    corpus: Tensor | None
    """Activations (n, d) of corpus tokens other than the concept's words; None if no corpus was read."""


class CorpusTokens(NamedTuple):
    """Activations of corpus tokens, keyed by hook point, and which of them end a word of each concept."""

    vectors: dict[str, Tensor]
    """(n, d) each."""
    is_word: Bool[Tensor, "c n"]


def find_concepts(
    autoencoders: Sequence[Named],
    *,
    concepts: Sequence[Concept] = CONCEPTS,
    model: str | None = None,
    corpus: str | None = None,
    corpus_tokens: int = CORPUS_TOKENS,
    device: str = "auto",
    on_progress: Progress = no_progress,
) -> list[Finding]:
    """The best latent of every autoencoder for each concept.

    Args:
        autoencoders: Dictionaries of one language model, with their names.
        concepts: Words to look for.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Another corpus for detection, or the location of the recorded one.
        corpus_tokens: Held-out corpus tokens to detect concepts among; 0 skips detection.
        device: Device of the language model.
        on_progress: Called after each autoencoder.

    Returns:
        One finding per concept and autoencoder, by concept.

    Example:
        >>> from quadric.evidence.concepts import CONCEPTS, Named, find_concepts
        >>> (found,) = find_concepts([Named("demo", ae)], concepts=CONCEPTS[:1], corpus_tokens=200)
        >>> found.concept, found.words, found.kind
        ('weekdays', 7, 'composite')
    """
    tokens = _tokens(autoencoders, concepts, model, corpus, corpus_tokens, device)
    found = []
    on_progress("autoencoders", 0, len(autoencoders), "")
    for number, (name, autoencoder) in enumerate(autoencoders, 1):
        hook_point = autoencoder.provenance.hook_point
        assert hook_point is not None
        variances = [concept_variance(unit_tokens(each.vectors)) for each in tokens[hook_point]]
        captured = best_captures(autoencoder, variances)
        for concept, best, each in zip(concepts, captured, tokens[hook_point], strict=True):
            finding = Finding(
                concept=concept.name,
                words=len(concept.words),
                autoencoder=name,
                kind=autoencoder.kind,
                hook_point=hook_point,
                best=best,
                detection=None if each.corpus is None else detect(autoencoder, each.vectors, each.corpus),
            )
            found.append(finding)
        on_progress("autoencoders", number, len(autoencoders), "")
    order = [concept.name for concept in concepts]
    return sorted(found, key=lambda each: order.index(each.concept))


def _tokens(
    autoencoders: Sequence[Named],
    concepts: Sequence[Concept],
    model: str | None,
    corpus: str | None,
    corpus_tokens: int,
    device: str,
) -> dict[str, list[ConceptTokens]]:
    """Activations of every concept and of the corpus, keyed by hook point."""
    if not autoencoders:
        raise ValueError("no autoencoder to search; give at least one run")
    configs = [config_from(each.autoencoder.provenance, model=model, corpus=corpus) for each in autoencoders]
    source = find_model(configs[0].model, configs[0].model_revision)
    _check_model(autoencoders, source)
    shape = load_shape(source)
    points = sorted({parse_hook_point(config.hook_points, shape.n_layers) for config in configs})
    held_out = replace(configs[0].corpus, split="held_out")
    config = replace(configs[0], hook_points=",".join(map(str, points)), corpus=held_out)
    # Looks for the corpus before the model is loaded.
    provenance = provenance_of(config, source, shape, device) if corpus_tokens else None
    loaded = load_model(source, device=device, dtype=config.model_dtype)
    vectors = [concept_vectors(loaded, points, config.rules, concept) for concept in concepts]
    if provenance is None:
        return {str(point): [ConceptTokens(each[str(point)], None) for each in vectors] for point in points}
    stream = LiveStream(config, loaded, batch=BatchSize(tokens=corpus_tokens), provenance=provenance)
    read = corpus_vectors(stream, list(concepts), corpus_tokens)
    return {
        name: [ConceptTokens(each[name], corpus[~is_word]) for each, is_word in zip(vectors, read.is_word, strict=True)]
        for name, corpus in read.vectors.items()
    }


def _check_model(autoencoders: Sequence[Named], source: ModelSource) -> None:
    for name, autoencoder in autoencoders:
        if autoencoder.provenance.model_revision not in (None, source.revision):  # None: trained elsewhere
            raise ProvenanceError(
                f"{name} was trained on {autoencoder.provenance.model} "
                f"({autoencoder.provenance.model_revision}), not on {source.name} ({source.revision}); search runs "
                "of one language model at a time, or give its location with --model"
            )


def concept_vectors(
    model: LanguageModel, points: list[HookPoint], rules: TokenRules, concept: Concept
) -> dict[str, Float[Tensor, "b w d"]]:
    """Activations of the last token of every word after every prompt, in float64, keyed by hook point.

    They have their own length, which some dictionaries of other libraries read.
    """
    found = [_word_vectors(model, points, rules, sentences) for sentences in concept.sentences()]
    return {name: torch.stack([vectors[name] for vectors in found]) for name in found[0]}


def _word_vectors(
    model: LanguageModel, points: list[HookPoint], rules: TokenRules, sentences: list[str]
) -> dict[str, Float[Tensor, "w d"]]:
    bos = rules.bos_of(model.tokenizer)
    ids = [[*([] if bos is None else [bos]), *each] for each in model.tokenizer.encode(sentences)]
    lengths = torch.tensor([len(each) for each in ids])
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in ids], batch_first=True)
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    found = capture(model, points, tokens.to(model.device), mask.to(model.device))
    rows = torch.arange(len(ids))
    return {name: vectors[rows, lengths - 1].cpu().double() for name, vectors in found.items()}


def corpus_vectors(stream: LiveStream, concepts: list[Concept], n_tokens: int) -> CorpusTokens:
    """The first kept tokens of a corpus, fewer if it is shorter."""
    words = [word_tokens(stream.model.tokenizer, concept) for concept in concepts]
    vectors: dict[str, list[Tensor]] = {name: [] for name in stream.hook_points}
    is_word, done = [], 0
    for forward in stream.passes():
        batch = forward.batch
        for name, rows in batch.activations.items():
            vectors[name].append(rows.cpu().double())
        place = (batch.sequences - forward.sequences.first, batch.positions)
        is_word.append(torch.stack([ends_with(forward.sequences.tokens, each)[place] for each in words]).cpu())
        done += len(batch)
        if done >= n_tokens:
            break
    together = {name: torch.cat(parts)[:n_tokens] for name, parts in vectors.items()}
    return CorpusTokens(together, torch.cat(is_word, dim=1)[:, :n_tokens])


def word_tokens(tokenizer: Tokenizer, concept: Concept) -> list[list[int]]:
    """The tokens of every word inside a sentence."""
    beginning = concept.beginnings[0]
    n_before = len(tokenizer.encode([beginning])[0])
    return [ids[n_before:] for ids in tokenizer.encode([f"{beginning} {word}" for word in concept.words])]


def ends_with(tokens: Int[Tensor, "s l"], words: list[list[int]]) -> Bool[Tensor, "s l"]:
    """Where the tokens read so far end with one of the words."""
    found = torch.zeros_like(tokens, dtype=torch.bool)
    for word in words:
        size = len(word)
        if size <= tokens.shape[1]:
            matches = tokens.unfold(1, size, 1) == torch.tensor(word, device=tokens.device)
            found[:, size - 1 :] |= matches.all(-1)
    return found
