"""What data says about each latent: one pass over activations, for all latents at once.

In the order of the flow:

streams      the activations that an autoencoder reads, opened again from its provenance
text         the text behind a stream of activations: a corpus, a cache, or the rows of a tensor
places       one number per token, the text around it, and the text that was read
reservoir    the weighted draw of points              ┐
contexts     the strongest tokens of each sign        ├ gathered by a `collector`, batch by batch
firing       sums and a histogram                     ┘
calibration  centre, value at rest, sign and linear predictor, from the first tokens
collector    everything that one pass gathers, for all latents
collecting   one pass from a stream to evidence; resumes after a crash
labels       short names from the tokens that carry a latent's energy
scoring      how well a label tells where its latent fires, on held-out documents
finishing    from a collector to evidence
on_activations  all of it on a tensor or on harvested activations, in one call
record       `Evidence`, its parts and its settings
storage      evidence on disk
endpoints    language models behind an HTTP endpoint
labelling    labels written by such a model
judging      scores of those labels, by the same model
ranking      which latents to look at first
clusters     groups among a latent's points, with their stability
patterns     the paper's example geometries, as tests: cone, cluster, interpolation, subset

evidence = collect(autoencoder, stream, folder, n_tokens=200_000)
evidence.labels.of(17), evidence.points.coordinates[17]
"""

from quadric.evidence.calibration import Calibration, calibrate
from quadric.evidence.collecting import Job, collect, collect_in_memory, collect_together, gather
from quadric.evidence.collector import Collector, MemoryNeed, memory_need, merge
from quadric.evidence.finishing import evidence_of
from quadric.evidence.on_activations import collect_evidence
from quadric.evidence.patterns.finding import find_patterns
from quadric.evidence.patterns.record import DictionaryPatterns, PatternTest, patterns_csv
from quadric.evidence.record import (
    Contexts,
    Evidence,
    EvidenceSettings,
    FiringStatistics,
    Labels,
    LabelScore,
    ModelLabels,
    Points,
    TextRead,
)
from quadric.evidence.streams import open_cached, open_live
from quadric.evidence.text import RowText, TextSource, text_behind

__all__ = [
    "Calibration",
    "Collector",
    "Contexts",
    "DictionaryPatterns",
    "Evidence",
    "EvidenceSettings",
    "FiringStatistics",
    "Job",
    "LabelScore",
    "Labels",
    "MemoryNeed",
    "ModelLabels",
    "PatternTest",
    "Points",
    "RowText",
    "TextRead",
    "TextSource",
    "calibrate",
    "collect",
    "collect_evidence",
    "collect_in_memory",
    "collect_together",
    "evidence_of",
    "find_patterns",
    "gather",
    "memory_need",
    "merge",
    "open_cached",
    "open_live",
    "patterns_csv",
    "text_behind",
]
