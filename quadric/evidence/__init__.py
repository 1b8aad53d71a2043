"""What data says about each latent: one pass over activations, for all latents at once.

settings       how much is kept, and by which law
text           every position the language model read
reservoir      the weighted draw of points           ┐
contexts       the strongest tokens of each sign     ├ gathered by a `Collector`, batch by batch
firing         sums and a histogram                  ┘
token_energy   which tokens carry a latent's energy, and `labels` made from them
record         `Evidence`, saved and loaded by `storage`

evidence = collect(autoencoder, stream, folder, n_tokens=200_000)
evidence.labels.of(17), evidence.points.coordinates[17]
"""

from quadric.evidence.collecting import Job, collect, collect_together, gather
from quadric.evidence.collector import Collector, MemoryNeed, memory_need, merge, weights_sha256
from quadric.evidence.finishing import evidence_of
from quadric.evidence.record import Contexts, Evidence, FiringStatistics, Labels, ModelLabels, Points, TextRead
from quadric.evidence.settings import EvidenceSettings
from quadric.evidence.text import TextSource, text_behind

__all__ = [
    "Collector",
    "Contexts",
    "Evidence",
    "EvidenceSettings",
    "FiringStatistics",
    "Job",
    "Labels",
    "MemoryNeed",
    "ModelLabels",
    "Points",
    "TextRead",
    "TextSource",
    "collect",
    "collect_together",
    "evidence_of",
    "gather",
    "memory_need",
    "merge",
    "text_behind",
    "weights_sha256",
]
