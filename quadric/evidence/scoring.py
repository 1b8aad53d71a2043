"""How well a label tells where its latent fires, in documents that no label was made from.

Every fifth document is held out: labels are made from the others. From the held-out ones come three kinds of places:

    firing   points with |z − rest| above the firing threshold
    quiet    places that were scored and have no firing point in their window
    wrong    another token in the window of a firing point, which does not fire itself

Detection shows the text around firing and quiet places without a mark and asks where the latent fires. Fuzzing marks
one token, firing or wrong, and asks whether it is the right one (Paulo et al., 2024). Each score is the balanced
accuracy of the answers, the mean of the share of firing places accepted and of the share of others refused: 1 is
perfect and 0.5 is chance, whatever a judge prefers to say. For labels made offline the judge is the label itself, read
as a rule: does the token, or in detection any token of the window, match one of its words?

Points are drawn by strength, so firing places are mostly strong ones; and a quiet place may fire without having been
drawn, which is rare and can only lower a score.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from quadric.evidence.labels import ELLIPSIS, MIXED, Spellings, spellings
from quadric.evidence.record import MISSING, Evidence, LabelScore

Array = np.ndarray

HELD_OUT = 5
"""Every fifth document is held out."""
MOST_CONTEXTS = 100
"""Places of each kind that a rule judges at most."""
FEWEST_CONTEXTS = 10
"""Firing and quiet places below which a label is not scored."""
METHOD = (
    "balanced accuracy on documents that labels were not made from, where chance is 0.5. Detection asks whether the "
    "text around a token contains what the label names, fuzzing whether the marked token is the right one"
)


def held_out(documents: Int[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Which documents labels are not made from."""
    return np.asarray(documents % HELD_OUT == HELD_OUT - 1)


class Trials(NamedTuple):
    """Held-out places of one latent, by index in the text; as many quiet places as firing ones, or fewer wrong ones."""

    firing: Int64[Array, " n"]
    quiet: Int64[Array, " n"]
    wrong_of: Int64[Array, " w"]
    """Firing places that have a wrong token beside them."""
    wrong: Int64[Array, " w"]
    """The wrong token of each of those."""


class HeldOutText:
    """The text of some evidence, prepared for scoring any number of its latents."""

    def __init__(self, evidence: Evidence) -> None:
        text = evidence.text
        self.evidence, self.text, self.reach = evidence, text, evidence.settings.window
        self.held_out = held_out(np.asarray(text.documents))
        scored = np.zeros(len(text.token_ids), dtype=bool)  # what token rules dropped is in the text, but has no z
        for places in evidence.points.places:
            scored[places[places != MISSING]] = True
        self.candidates = np.flatnonzero(scored & self.held_out)
        self.groups: Spellings = spellings(text.vocabulary, text.frequencies())
        self.group_at = self.groups.group[text.token_ids]
        self.groups_of: dict[str, list[int]] = {}
        for group, name in enumerate(self.groups.texts):
            self.groups_of.setdefault(name, []).append(group)

    @property
    def is_split(self) -> bool:
        """Whether there are documents of both kinds; else labels are made from all, and none is scored."""
        return bool(self.held_out.any() and not self.held_out.all())

    def any_in_window(self, mask: Bool[Array, " t"], places: Int64[Array, " n"]) -> Bool[Array, " n"]:
        """Whether a mask over the text holds anywhere in the window of each place."""
        around = self.text.window(places, self.reach)
        return np.asarray((mask[around] & (around != MISSING)).any(axis=1))

    def trials(self, latent: int, count: int, generator: np.random.Generator) -> Trials | None:
        """Up to `count` places of each kind; None if there are too few."""
        fires = np.zeros(len(self.text.token_ids), dtype=bool)
        fires[self.evidence.points.places[latent][self.evidence.fires(latent)]] = True
        firing = np.flatnonzero(fires & self.held_out)
        firing = generator.permutation(firing)[:count]
        drawn = generator.permutation(self.candidates)[: 4 * len(firing) + 4 * FEWEST_CONTEXTS]
        quiet = drawn[~self.any_in_window(fires, drawn)][: len(firing)]
        n = min(len(firing), len(quiet))
        if n < FEWEST_CONTEXTS:
            return None
        firing, quiet = firing[:n], quiet[:n]
        around = self.text.window(firing, self.reach)
        possible = (around != MISSING) & ~fires[around]
        usable = possible.any(axis=1)
        chance = generator.random(around.shape) * possible
        wrong = np.take_along_axis(around, chance.argmax(axis=1)[:, None], axis=1)[:, 0]
        return Trials(firing, quiet, firing[usable], wrong[usable])

    def matches(self, label: str) -> Bool[Array, " t"]:
        """Where in the text an offline label's rule holds."""
        found = np.zeros(len(self.group_at), dtype=bool)
        for side in label.removeprefix("− ").split(" ↔ "):
            before, words = self._clause(side)
            if not (before or words):
                continue
            matched = self._is_one_of(words) if words else np.ones_like(found)
            if before:
                follows = np.append(False, self._is_one_of(before)[:-1])
                follows[self.text.sequence_starts] = False
                matched = matched & follows
            found |= matched
        return found

    def _is_one_of(self, groups: list[int]) -> Bool[Array, " t"]:
        table = np.zeros(len(self.groups.texts), dtype=bool)
        table[groups] = True
        return np.asarray(table[self.group_at])

    def _clause(self, side: str) -> tuple[list[int], list[int]]:
        """The groups that must come before, and those of the token itself; either may be empty: any."""
        words = [word for word in side.split(" · ") if word not in (MIXED, ELLIPSIS, "")]
        before: list[int] = []
        if words and words[0] not in self.groups_of and words[0].startswith("after "):
            followed, first = self._after(words[0].removeprefix("after "))
            before, words = self.groups_of.get(followed, []), [*first, *words[1:]]
        return before, [group for word in words for group in self.groups_of.get(word, [])]

    def _after(self, text: str) -> tuple[str, list[str]]:
        """X and the first word of "X: word", or X alone; a token may hold a colon itself."""
        if text in self.groups_of:
            return text, []
        cuts = [at for at in range(len(text)) if text.startswith(": ", at)]
        for at in cuts:
            if text[:at] in self.groups_of and text[at + 2 :] in self.groups_of:
                return text[:at], [text[at + 2 :]]
        return text, []


def balanced(accepted: Bool[Array, " n"], accepted_others: Bool[Array, " m"]) -> float:
    """Mean of the share accepted among what should be, and the share refused among what should not."""
    return float((accepted.mean() + 1 - accepted_others.mean()) / 2)


def score_rules(evidence: Evidence, labels: list[str], *, seed: int = 0) -> list[LabelScore | None] | None:
    """Score the offline label of every latent by its own rule; labels must not be made from the held-out documents.

    None for a latent without a label or that fires on too few held-out tokens; None instead of a list if the text
    cannot be split, because it has too few documents.
    """
    text = HeldOutText(evidence)
    if not text.is_split:
        return None
    return [_score(text, latent, label, seed) if label else None for latent, label in enumerate(labels)]


def _score(text: HeldOutText, latent: int, label: str, seed: int) -> LabelScore | None:
    trials = text.trials(latent, MOST_CONTEXTS, np.random.default_rng((seed, latent)))
    if trials is None:
        return None
    rule = text.matches(label)
    return score_of(
        trials,
        detected=text.any_in_window(rule, np.concatenate([trials.firing, trials.quiet])),
        marked=rule[np.concatenate([trials.wrong_of, trials.wrong])],
    )


def score_of(trials: Trials, *, detected: Bool[Array, " d"], marked: Bool[Array, " f"]) -> LabelScore:
    """The score of a judge who accepted these of firing and quiet, and of right and wrong places."""
    n, w = len(trials.firing), len(trials.wrong)
    return LabelScore(
        detection=round(balanced(detected[:n], detected[n:]), 3),
        fuzzing=round(balanced(marked[:w], marked[w:]), 3) if w >= FEWEST_CONTEXTS else None,
        n_contexts=n,
    )
