"""What data says about each latent: one pass over activations, for all latents at once.

In the order of the flow:

streams      the activations that an autoencoder reads, opened again from its provenance
text         the text behind a stream of activations: a corpus, a cache, or the rows of a tensor
places       one number per token, the text around it, and the text that was read
calibration  centre, value at rest, sign and linear predictor, from the first tokens
reservoir    the weighted draw of points, and the strongest tokens of each sign
firing       sums and a histogram
collector    everything that one pass gathers, for all latents, batch by batch
collecting   one pass from a stream, a tensor or harvested activations to evidence; resumes after a crash
labels       short names from the tokens that carry a latent's energy
scoring      how well a label tells where its latent fires, on held-out documents
finishing    from a collector to evidence
record       `Evidence`, its parts and its settings
storage      evidence on disk
endpoints    language models behind an HTTP endpoint
labelling    labels written by such a model, and their scores by the same model
ranking      which latents to look at first
table        one row per latent
clusters     groups among a latent's points, with their stability
patterns     the paper's example geometries, as tests: cone, cluster, interpolation, subset
concepts     which latent captures or detects weekdays, months, years …

evidence = collect(autoencoder, stream, folder, n_tokens=200_000)
evidence.labels.of(17), evidence.points.coordinates[17]
"""

from quadric._io import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
