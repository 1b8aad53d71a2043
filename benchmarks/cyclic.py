"""From one word of an ordered concept to another, along the quadric of the latent that captures it.

A question such as "Two days after Tuesday comes" is asked with every word. At the hook point, the activations of the
question with one word, from the word to the end, are moved towards those of the same question with another word:

    quadric    along the level set of the latent, `Latent.path`: only its own axes move, and z stays as it is
    line       straight, between the same two ends as the quadric
    all of x   straight, to the activations of the other question, in all dimensions; ends at its answer

Along the way the prediction of the next token is read, as √p. Isometry is the correlation, over all pairs of points, of
the length of the way between them in activation space with the Hellinger distance of their predictions. Off-target mass
is the probability of everything but the answers to the question.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.data import TokenRules
from quadric.data.forward import Replacement, capture, predictions
from quadric.data.hook_points import HookPoint
from quadric.data.models import LanguageModel
from quadric.evidence.concepts.finding import concept_vectors
from quadric.evidence.concepts.measures import Capture, best_captures, concept_variance
from quadric.evidence.concepts.words import CONCEPTS, Concept
from quadric.interventions.latents import Latent
from quadric.model import Dictionary
from quadric.model.objective import unit_tokens
from quadric.studies.steering.measures import hellinger, mass
from quadric.studies.steering.reading import encode_prompts

N_PAIRS = 12
SHARES = tuple(step / 8 for step in range(9))
WAYS = ("quadric", "line", "all of x")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about the words of a concept, whose answer is another of them."""

    concept: str
    """Name of a concept of `quadric.evidence.concepts`, which decides the latent."""
    template: str
    words: tuple[str, ...]
    answers: tuple[str, ...]
    """What follows the question for each word; as text with its space, of which the first token counts."""


def _shifted(words: Sequence[str], by: int) -> tuple[str, ...]:
    return tuple(f" {words[(place + by) % len(words)]}" for place in range(len(words)))


_WORDS = {concept.name: concept.words for concept in CONCEPTS}
QUESTIONS = (
    Question(
        concept="weekdays",
        template="Two days after {} comes",
        words=_WORDS["weekdays"],
        answers=_shifted(_WORDS["weekdays"], 2),
    ),
    Question(
        concept="months",
        template="The month after {} is",
        words=_WORDS["months"],
        answers=_shifted(_WORDS["months"], 1),
    ),
    Question(
        concept="numbers",
        template="The number that comes after {} is",
        words=_WORDS["numbers"][:11],
        answers=tuple(f" {word}" for word in _WORDS["numbers"][1:12]),
    ),
    Question(
        concept="years",
        template="The year after {} was 198",
        words=tuple(str(year) for year in range(1980, 1989)),
        answers=tuple(str(digit) for digit in range(1, 10)),
    ),
)


@dataclass(frozen=True, kw_only=True)
class CyclicRow:
    """One way from one word to another."""

    concept: str
    latent: int
    way: str
    start: str
    end: str
    length: float | None
    """Of the way in activation space, over the distance of the two questions' activations; None if there is no path."""
    isometry: float | None = None
    """Correlation of lengths in activation space with Hellinger distances of predictions, over pairs of points."""
    moved: float | None = None
    """Hellinger distance between the predictions at both ends, over that of the two questions."""
    missing: float | None = None
    """Hellinger distance of the last prediction from that of the other question, over the same; 0 is arrived."""
    off_target: float | None = None
    """Probability of everything but the answers, mean over the points between the ends."""
    off_target_start: float | None = None
    off_target_end: float | None = None
    answer: float | None = None
    """Gain of the probability of the other question's answer."""


class Finding(NamedTuple):
    """The latent of a concept, and the ways between its words."""

    question: Question
    capture: Capture
    accuracy: float
    """Share of the words for which the unmodified model finds the right answer most probable among the answers."""
    rows: list[CyclicRow]


def cyclic_study(
    model: LanguageModel,
    point: HookPoint,
    autoencoder: Dictionary,
    *,
    questions: Sequence[Question] = QUESTIONS,
    n_pairs: int = N_PAIRS,
    seed: int = 0,
    on_finding: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Move questions from word to word, along the quadric of the latent that captures the concept, and straight.

    Args:
        model: The language model.
        point: Hook point of the dictionary.
        autoencoder: The dictionary.
        questions: What to ask.
        n_pairs: Pairs of words per question, drawn at random.
        seed: Of the draw.
        on_finding: Called with every finding.

    Returns:
        One finding per question.
    """
    found = []
    for question in questions:
        concept = next(each for each in CONCEPTS if each.name == question.concept)
        captured = captured_by(model, point, autoencoder, concept)
        asked = _Asked(model, point, question)
        rows = [
            row
            for start, end in drawn_pairs(len(question.words), n_pairs, seed)
            for row in asked.ways(autoencoder.latent(captured.latent), start, end)
        ]
        found.append(Finding(question, captured, asked.accuracy(), rows))
        on_finding(found[-1])
    return found


def captured_by(model: LanguageModel, point: HookPoint, autoencoder: Dictionary, concept: Concept) -> Capture:
    """The latent whose eigenspace has most of the concept's variance; as `quadric concepts` finds it."""
    vectors = concept_vectors(model, [point], TokenRules(), concept)[str(point)]
    return best_captures(autoencoder, [concept_variance(unit_tokens(vectors))])[0]


def drawn_pairs(n_words: int, n_pairs: int, seed: int) -> list[tuple[int, int]]:
    """Different ordered pairs, drawn at random."""
    every = list(permutations(range(n_words), 2))
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed)).tolist()
    return [every[place] for place in order[:n_pairs]]


def isometry(points: Float[Tensor, "s n d"], log_p: Float[Tensor, "s v"]) -> float:
    """Correlation of lengths along the way with Hellinger distances, over all pairs of points.

    Args:
        points: Activations on the way.
        log_p: Log-probabilities at each of them.

    Returns:
        Pearson's correlation; 0 if nothing moves.
    """
    steps = (points[1:] - points[:-1]).double().flatten(1).norm(dim=1)
    place = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    lengths = (place[:, None] - place).abs()
    distances = pairwise_hellinger(log_p.double())
    first, second = torch.triu_indices(len(points), len(points), 1)
    both = torch.stack([lengths[first, second], distances[first, second]])
    if not bool((both.std(1) > 0).all()):
        return 0.0
    return float(torch.corrcoef(both)[0, 1])


def pairwise_hellinger(log_p: Float[Tensor, "n v"]) -> Float[Tensor, "n n"]:
    """Hellinger distances between all pairs of distributions, (n, n)."""
    return torch.stack([hellinger(each.expand_as(log_p), log_p) for each in log_p])


class _Asked:
    """One question with every word, as the unmodified model reads it."""

    def __init__(self, model: LanguageModel, point: HookPoint, question: Question) -> None:
        prompts = encode_prompts(model, [question.template.format(word) for word in question.words])
        if not bool(prompts.mask.all()):
            raise ValueError(
                f"'{question.template}' has different numbers of tokens for different words; give words of one length"
            )
        self.model, self.point, self.question = model, point, question
        self.tokens: Int[Tensor, "w l"] = prompts.tokens
        self.first = int((self.tokens != self.tokens[0]).any(0).nonzero()[0])
        """Position of the first token that differs between words."""
        self.activations = capture(model, [point], self.tokens)[str(point)]
        self.predicted = predictions(model, self.tokens)[:, -1].log_softmax(-1)
        self.answers = [ids[0] for ids in model.tokenizer.encode(list(question.answers))]

    def accuracy(self) -> float:
        best = self.predicted[:, self.answers].argmax(1)
        return float((best.cpu() == torch.arange(len(best))).double().mean())

    def ways(self, latent: Latent, start: int, end: int) -> Iterator[CyclicRow]:
        """From one word to another, on each way."""
        x, other = (self.activations[word, self.first :] for word in (start, end))
        shares = torch.tensor(SHARES, device=x.device)[:, None, None]
        try:
            along = latent.path(x, other, SHARES)
        except ValueError:  # no path: other sheet of a hyperboloid
            along = None
        points = {
            "quadric": along,
            "line": None if along is None else x + shares * (along[-1] - x),
            "all of x": x + shares * (other - x),
        }
        for way in WAYS:
            yield self.row(latent, way, start, end, points[way])

    def row(self, latent: Latent, way: str, start: int, end: int, points: Float[Tensor, "s n d"] | None) -> CyclicRow:
        row = CyclicRow(
            concept=self.question.concept,
            latent=latent.index,
            way=way,
            start=self.question.words[start],
            end=self.question.words[end],
            length=None,
        )
        if points is None:
            return row
        log_p = self.along(start, points)
        between = hellinger(self.predicted[start], self.predicted[end])
        off_target = 1 - mass(log_p, self.answers)
        apart = (self.activations[start, self.first :] - self.activations[end, self.first :]).norm()
        length = (points[1:] - points[:-1]).flatten(1).norm(dim=1).sum()
        gained = log_p[-1].exp() - log_p[0].exp()
        return replace(
            row,
            length=float(length / apart),
            isometry=isometry(points, log_p),
            moved=float(hellinger(log_p[0], log_p[-1]) / between),
            missing=float(hellinger(log_p[-1], self.predicted[end]) / between),
            off_target=float(off_target[1:-1].mean()),
            off_target_start=float(off_target[0]),
            off_target_end=float(off_target[-1]),
            answer=float(gained[self.answers[end]]),
        )

    def along(self, start: int, points: Float[Tensor, "s n d"]) -> Float[Tensor, "s v"]:
        """Log-probabilities of the next token at each point of the way."""
        tokens = self.tokens[start].expand(len(points), -1)
        where = torch.zeros_like(tokens, dtype=torch.bool)
        where[:, self.first :] = True
        replaced = Replacement(self.point, where, points.flatten(0, 1))
        return predictions(self.model, tokens, None, replaced)[:, -1].log_softmax(-1)
