"""From what a pass gathered to complete evidence: text, points, contexts, statistics and labels."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float32, Int64

from quadric.data.corpus.sources import CORPORA
from quadric.evidence.collector import Collector, Seen
from quadric.evidence.firing import PROBABILITIES
from quadric.evidence.labels import (
    METHOD,
    SignTokens,
    distinct_labels,
    energies,
    preferences,
    sign_tokens,
    spellings,
)
from quadric.evidence.places import NumberedText, position_of, sequence_of, text_read
from quadric.evidence.record import MISSING, Contexts, Evidence, FiringStatistics, Labels, Points
from quadric.evidence.reservoir import SIGNS
from quadric.evidence.scoring import held_out, score_rules
from quadric.evidence.text import TextSource
from quadric.model import Provenance
from quadric.model.storage import weights_sha256

Array = np.ndarray

LATENTS_AT_ONCE = 128


def evidence_of(collector: Collector, source: TextSource, provenance: Provenance, notes: list[str]) -> Evidence:
    """Complete what was gathered with its text, statistics and labels; `notes` are shown with the evidence."""
    if collector.n_tokens == 0:
        raise ValueError("no token was scored; give a stream that yields at least one batch")
    seen = collector.seen()
    text = text_read(source, np.unique(sequence_of(seen.places)))
    points = _points(collector, text, seen)
    tokens = _PreferredTokens(collector, text, seen)
    evidence = Evidence(
        settings=collector.settings,
        n_tokens=collector.n_tokens,
        provenance=provenance,
        weights_sha256=weights_sha256(collector.autoencoder),
        corpus_licence=attribution(provenance.corpus),
        text=text.read,
        points=points,
        contexts=_contexts(collector, text, seen),
        statistics=_statistics(collector, tokens),
        labels=Labels(
            texts=distinct_labels(tokens.signs, np.argsort(-collector.firing.square, kind="stable")),
            positive=[ups.texts for ups, _ in tokens.signs],
            negative=[downs.texts for _, downs in tokens.signs],
            method=METHOD,
        ),
        calibration=collector.calibration,
        notes=notes,
    )
    labels = evidence.labels
    return replace(evidence, labels=replace(labels, scores=score_rules(evidence, labels.texts)))


def attribution(corpus: str | None) -> str | None:
    """Attribution of a packaged corpus, which must be shown wherever its text is; None for other text."""
    if corpus not in CORPORA:
        return None
    resource = CORPORA[corpus].resource
    return f"{resource.attribution} ({resource.licence})"


def _points(collector: Collector, text: NumberedText, seen: Seen) -> Points:
    drawn, rest = collector.reservoir, collector.calibration.rest
    points = Points(
        places=np.empty_like(drawn.places),
        values=np.empty_like(drawn.values),
        coordinates=np.empty((*drawn.places.shape, collector.settings.n_axes), dtype=np.float32),
        linear=np.empty_like(drawn.values),
        control=np.empty((*drawn.places.shape, seen.control.shape[1]), dtype=np.float32),
    )
    for start in range(0, len(drawn.places), LATENTS_AT_ONCE):
        rows = slice(start, start + LATENTS_AT_ONCE)
        # Strongest first, ties in reading order, free slots last.
        strength = np.where(drawn.places[rows] == MISSING, 1.0, -np.abs(drawn.values[rows]))
        order = np.lexsort((drawn.places[rows], strength), axis=1)
        places = np.take_along_axis(drawn.places[rows], order, axis=1)
        points.places[rows] = text.indices_of(places)
        missing = places == MISSING
        points.values[rows] = np.take_along_axis(drawn.values[rows], order, axis=1) + rest[rows, None] * ~missing
        coordinates = np.take_along_axis(drawn.coordinates[rows], order[..., None], axis=1)
        points.coordinates[rows], points.linear[rows] = coordinates[..., :-1], coordinates[..., -1]
        points.control[rows] = _control(places, seen)
    return points


def _contexts(collector: Collector, text: NumberedText, seen: Seen) -> Contexts:
    kept, rest = collector.contexts, collector.calibration.rest
    there = kept.places != MISSING
    coordinates = kept.coordinates * there[..., None]
    return Contexts(
        places=text.indices_of(kept.places),
        values=kept.strengths * np.array(SIGNS)[:, None] + rest[:, None, None] * there,
        coordinates=coordinates[..., :-1],
        linear=coordinates[..., -1],
        control=_control(kept.places, seen),
    )


def _control(places: Int64[Array, "*shape"], seen: Seen) -> Float32[Array, "*shape 3"]:
    rows = np.searchsorted(seen.places, places).clip(max=len(seen.places) - 1)
    return np.asarray(seen.control[rows] * (places != MISSING)[..., None].astype(np.float32))


class _PreferredTokens:
    """Tokens that every latent prefers on each side, against their frequencies among all tokens scored."""

    def __init__(self, collector: Collector, text: NumberedText, seen: Seen) -> None:
        self.collector, self.text = collector, text
        ids = text.read.token_ids
        scored = ids[text.indices_of(seen.places)]
        self.frequencies = np.bincount(scored, minlength=len(text.read.vocabulary)) / len(scored)
        self.groups = spellings(text.read.vocabulary, self.frequencies)
        follows = position_of(seen.places) > 0
        previous = self.groups.group[ids[text.indices_of(seen.places[follows]) - 1]]
        self.before = np.bincount(previous, minlength=len(self.groups.texts)) / max(1, len(previous))
        apart = held_out(text.read.documents)
        self.held_out = apart & ~apart.all()
        """Positions whose documents labels are not made from; none if there would be no others."""
        shape = (len(collector.reservoir.keys), 2, collector.settings.n_lift_tokens)
        self.lift_tokens = np.full(shape, MISSING, dtype=np.int32)
        self.lifts = np.zeros(shape, dtype=np.float32)
        limits = collector.settings.firing_rms * np.sqrt(collector.firing.mean_square())
        self.signs = [self._signs(latent, float(limit)) for latent, limit in enumerate(limits)]

    def _signs(self, latent: int, limit: float) -> tuple[SignTokens, SignTokens]:
        """What a label names for each sign of a latent, whose lifts are filled in."""
        drawn, ids, group = self.collector.reservoir, self.text.read.token_ids, self.groups.group
        held = drawn.places[latent] != MISSING
        values = drawn.values[latent][held]
        is_complete = self.collector.n_tokens <= drawn.keys.shape[1]
        energy = energies(values, drawn.keys[latent][held], drawn.epsilon, is_complete)
        places = self.text.indices_of(drawn.places[latent][held])
        follows = position_of(drawn.places[latent][held]) > 0
        fires = np.abs(values) > limit
        total = energy[fires].sum()
        signs = []
        for sign, factor in enumerate(SIGNS):
            chosen = fires & (values * factor > 0)
            best = preferences(ids[places[chosen]], energy[chosen], self.frequencies)
            count = min(self.lifts.shape[2], len(best.tokens))
            self.lift_tokens[latent, sign, :count] = best.tokens[:count]
            self.lifts[latent, sign, :count] = best.lifts[:count]
            share = float(energy[chosen].sum() / total) if total > 0 else 0.0
            named = chosen & ~self.held_out[places]
            grouped = preferences(group[ids[places[named]]], energy[named], self.groups.frequencies)
            later = named & follows
            before = preferences(group[ids[places[later] - 1]], energy[later], self.before)
            signs.append(sign_tokens(grouped, before, self.groups, share))
        return signs[0], signs[1]


def _statistics(collector: Collector, tokens: _PreferredTokens) -> FiringStatistics:
    firing, rest = collector.firing, collector.calibration.rest
    empty = (firing.square == 0) & (rest == 0)
    return FiringStatistics(
        density=np.where(empty, np.float32(0), firing.density()),
        quantiles=firing.quantiles() + rest[:, None],
        probabilities=PROBABILITIES,
        positive_share=firing.positive_share(),
        firing_share=np.where(
            firing.square == 0,  # a latent that never leaves its rest does not fire, though all of z is at its limit
            np.float32(0),
            firing.share_beyond(collector.settings.firing_rms * np.sqrt(firing.mean_square())),
        ),
        mean_square=firing.mean_square(),
        curvature=firing.curvature(),
        lift_tokens=tokens.lift_tokens,
        lifts=tokens.lifts,
    )
