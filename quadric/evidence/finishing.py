"""From what a pass gathered to complete evidence: text, points, contexts, statistics and labels."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from quadric.data.corpus.sources import CORPORA
from quadric.evidence.collector import Collector, Seen
from quadric.evidence.contexts import SIGNS
from quadric.evidence.firing import PROBABILITIES
from quadric.evidence.labels.scoring import held_out, score_rules
from quadric.evidence.labels.stored import (
    METHOD,
    SignTokens,
    Spellings,
    distinct_labels,
    energies,
    preferences,
    sign_tokens,
    spellings,
)
from quadric.evidence.places import NumberedText, position_of, sequence_of, text_read
from quadric.evidence.record import MISSING, Contexts, Evidence, FiringStatistics, Labels, Points, TextRead
from quadric.evidence.text import TextSource
from quadric.model import Provenance
from quadric.model.storage import weights_sha256

Array = np.ndarray

LATENTS_AT_ONCE = 128


def evidence_of(collector: Collector, source: TextSource, provenance: Provenance, notes: list[str]) -> Evidence:
    """Complete what was gathered with its text, statistics and labels.

    Args:
        collector: What a pass has gathered.
        source: The text behind the stream.
        provenance: Where the activations come from.
        notes: Sentences that are shown with the evidence, such as that the text ended early.

    Returns:
        The evidence.

    Example:
        >>> from quadric.evidence import Collector, EvidenceSettings, evidence_of, gather, open_live, text_behind
        >>> collector = Collector(ae, EvidenceSettings(n_points=50))
        >>> stream = open_live(ae.provenance, batch_tokens=256)
        >>> gather(collector, stream, text_behind(stream), n_tokens=500)
        >>> found = evidence_of(collector, text_behind(stream), ae.provenance, notes=[])
        >>> found.points.values.shape
        (24, 50)
    """
    if collector.n_tokens == 0:
        raise ValueError("no token was scored; give a stream that yields at least one batch")
    seen = collector.seen()
    text = text_read(source, np.unique(sequence_of(seen.places)))
    points = _points(collector, text, seen)
    tokens = _token_account(collector, text, seen)
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


class _TokenAccount(NamedTuple):
    """Preferred tokens of every latent and sign."""

    lift_tokens: Array
    lifts: Array
    signs: list[tuple[SignTokens, SignTokens]]


class _Frequencies(NamedTuple):
    """Frequencies of tokens, of groups of spellings, and of groups that precede a token, among all tokens scored."""

    text: TextRead
    tokens: Float64[Array, " v"]
    groups: Spellings
    before: Float64[Array, " g"]
    held_out: Bool[Array, " n"]
    """Positions whose documents labels are not made from; none if there would be no others."""


def _token_account(collector: Collector, text: NumberedText, seen: Seen) -> _TokenAccount:
    scored = text.read.token_ids[text.indices_of(seen.places)]
    frequencies = np.bincount(scored, minlength=len(text.read.vocabulary)) / len(scored)
    groups = spellings(text.read.vocabulary, frequencies)
    follows = position_of(seen.places) > 0
    previous = groups.group[text.read.token_ids[text.indices_of(seen.places[follows]) - 1]]
    before = np.bincount(previous, minlength=len(groups.texts)) / max(1, len(previous))
    apart = held_out(text.read.documents)
    usual = _Frequencies(text.read, frequencies, groups, before, apart & ~apart.all())
    shape = (len(collector.reservoir.keys), 2, collector.settings.n_lift_tokens)
    account = _TokenAccount(np.full(shape, MISSING, dtype=np.int32), np.zeros(shape, dtype=np.float32), [])
    limits = collector.settings.firing_rms * np.sqrt(collector.firing.mean_square())
    for latent, limit in enumerate(limits):
        _account_for(collector, latent, float(limit), text, usual, account)
    return account


def _account_for(
    collector: Collector, latent: int, limit: float, text: NumberedText, usual: _Frequencies, account: _TokenAccount
) -> None:
    drawn = collector.reservoir
    held = drawn.places[latent] != MISSING
    values = drawn.values[latent][held]
    energy = energies(values, drawn.keys[latent][held], drawn.epsilon, collector.n_tokens <= drawn.keys.shape[1])
    places = text.indices_of(drawn.places[latent][held])
    tokens = usual.text.token_ids[places]
    follows = position_of(drawn.places[latent][held]) > 0
    fires = np.abs(values) > limit
    total = energy[fires].sum()
    found = []
    for sign, factor in enumerate(SIGNS):
        chosen = fires & (values * factor > 0)
        best = preferences(tokens[chosen], energy[chosen], usual.tokens)
        count = min(account.lifts.shape[2], len(best.tokens))
        account.lift_tokens[latent, sign, :count] = best.tokens[:count]
        account.lifts[latent, sign, :count] = best.lifts[:count]
        share = float(energy[chosen].sum() / total) if total > 0 else 0.0
        group = usual.groups.group
        named = chosen & ~usual.held_out[places]
        grouped = preferences(group[tokens[named]], energy[named], usual.groups.frequencies)
        later = named & follows
        before = preferences(group[usual.text.token_ids[places[later] - 1]], energy[later], usual.before)
        found.append(sign_tokens(grouped, before, usual.groups, share))
    account.signs.append((found[0], found[1]))


def _statistics(collector: Collector, tokens: _TokenAccount) -> FiringStatistics:
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
